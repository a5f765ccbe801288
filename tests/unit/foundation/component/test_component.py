"""Dumping and loading, with components of the tests' own."""

from __future__ import annotations

import json
from typing import Any, Self

import pytest
from pydantic import BaseModel, SecretStr

from callboard import (
    Component,
    ComponentBase,
    ComponentFromConfig,
    ComponentLoader,
    ComponentModel,
    ComponentSchemaType,
    ComponentToConfig,
    is_component_class,
    is_component_instance,
    register_component,
)
from callboard.foundation import component as registry
from callboard.foundation.component import (
    ComponentConfigError,
    ComponentError,
    ComponentNotAllowedError,
    ComponentTypeError,
    ComponentVersionError,
    NotDumpableError,
    Permissions,
    permissions,
)


class GreeterConfig(BaseModel):
    greeting: str
    name: str | None = None
    key: SecretStr | None = None


class Greeter(ComponentBase[GreeterConfig], Component[GreeterConfig]):
    """Greets somebody.

    And says nothing else.
    """

    component_type = "greeter"
    component_config_schema = GreeterConfig

    def __init__(self, greeting: str, key: str | None = None) -> None:
        self.greeting = greeting
        self.key = key
        self.allowed = permissions()

    def _to_config(self) -> GreeterConfig:
        return GreeterConfig(greeting=self.greeting, key=SecretStr(self.key) if self.key else None)

    @classmethod
    def _from_config(cls, config: GreeterConfig) -> Self:
        return cls(config.greeting)


class PairConfig(BaseModel):
    first: ComponentModel
    others: list[ComponentModel]


class Pair(ComponentBase[PairConfig], Component[PairConfig]):
    component_type = "greeter"
    component_config_schema = PairConfig
    component_provider_override = "mine.Pair"
    component_description = "Several greeters"
    component_label = "pair"

    def __init__(self, first: Greeter, others: list[Greeter]) -> None:
        self.greeters = [first, *others]

    def _to_config(self) -> PairConfig:
        first, *others = [greeter.dump_component() for greeter in self.greeters]
        return PairConfig(first=first, others=others)

    @classmethod
    def _from_config(cls, config: PairConfig) -> Self:
        others = [ComponentLoader.load_component(one, Greeter) for one in config.others]
        return cls(Greeter.load_component(config.first), others)


class Grown(Greeter):
    component_version = 3

    @classmethod
    def _from_config_past_version(cls, config: dict[str, Any], version: int) -> Self:
        if version == 1:
            return super()._from_config_past_version(config, version)
        return cls(f"{config['hello']} of {version}")


PLACE = f"{__name__}.Greeter"


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


def dump(provider: str = PLACE, version: int | None = None, **config: Any) -> dict[str, Any]:
    return {"provider": provider, "component_version": version, "config": config}


class TestDumping:
    def test_a_dump_has_autogens_fields(self) -> None:
        assert Greeter("Hi").dump_component() == ComponentModel(
            provider=PLACE,
            component_type="greeter",
            version=1,
            component_version=1,
            description="Greets somebody.",
            label="Greeter",
            config={"greeting": "Hi"},
        )

    def test_provider_description_and_label_may_be_set(self) -> None:
        made = Pair(Greeter("a"), []).dump_component()
        assert (made.provider, made.description, made.label) == ("mine.Pair", "Several greeters", "pair")

    def test_a_class_without_docstring_has_no_description(self) -> None:
        assert Grown("a").dump_component().description is None

    def test_secrets_are_left_out_at_any_depth(self) -> None:
        made = Pair(Greeter("a", "s3cret"), [Greeter("b", "s3cret")]).dump_component()
        assert "s3cret" not in repr(made)
        assert "key" not in made.model_dump_json()

    def test_a_local_class_is_refused(self) -> None:
        class Local(Greeter):
            pass

        with pytest.raises(TypeError, match="local class: define it at the top level"):
            Local("a").dump_component()

    def test_an_internal_module_is_warned_of(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Greeter, "__module__", "mine._inner")
        with pytest.warns(UserWarning, match="mine._inner.Greeter names an internal module"):
            Greeter("a").dump_component()

    def test_without_a_type_or_config_it_is_refused(self) -> None:
        class NoType(ComponentToConfig[BaseModel]):
            component_provider_override = "mine.NoType"

        class NoConfig(NoType):
            component_type = "odd"

        with pytest.raises(ComponentTypeError, match="NoType does not define component_type"):
            NoType().dump_component()
        with pytest.raises(
            NotImplementedError, match="NoConfig can't be dumped: it has no _to_config"
        ) as raised:
            NoConfig().dump_component()
        assert isinstance(raised.value, NotDumpableError)


class TestLoading:
    def test_the_class_that_it_is_called_on_or_that_is_expected_is_loaded(self) -> None:
        text = Greeter("Hi").dump_component().model_dump_json()
        assert Greeter.load_component(json.loads(text)).greeting == "Hi"
        assert (
            ComponentLoader.load_component(ComponentModel.model_validate_json(text), Greeter).greeting == "Hi"
        )

    def test_any_other_has_to_be_on_the_list(self) -> None:
        with pytest.raises(
            ComponentNotAllowedError, match=r"providers that may be loaded: register the class"
        ):
            ComponentLoader.load_component(dump(greeting="Hi"))

    @pytest.mark.parametrize(
        "provider", ["os.system", "system", "", ".", "callboard.", "callboard.models.info", "a:b"]
    )
    def test_nothing_is_imported_or_found_by_its_place(self, provider: str) -> None:
        with pytest.raises(ValueError, match="not among the providers"):
            ComponentLoader.load_component(dump(provider, command="true"))

    def test_a_registered_class_is_on_the_list(self) -> None:
        assert register_component(Greeter) is Greeter
        register_component(Pair)
        pair = ComponentLoader.load_component(Pair(Greeter("a"), [Greeter("b")]).dump_component())
        assert isinstance(pair, Pair)
        assert [one.greeting for one in pair.greeters] == ["a", "b"]

    def test_a_class_may_be_given(self) -> None:
        assert isinstance(ComponentLoader.load_component(dump(greeting="Hi"), providers=[Greeter]), Greeter)
        made = ComponentLoader.load_component(
            dump("their.Hello", greeting="Hi"), providers={"their.Hello": Greeter}
        )
        assert isinstance(made, Greeter)

    def test_what_is_allowed_reaches_the_components_inside_and_ends_with_the_load(self) -> None:
        config = Pair(Greeter("a"), []).dump_component()
        pair = Pair.load_component(config, providers=[Greeter], modules=["m"], commands=["c"], hosts=["h"])
        assert pair.greeters[0].allowed == Permissions(
            providers={PLACE: Greeter},
            modules=frozenset({"m"}),
            commands=frozenset({"c"}),
            hosts=frozenset({"h"}),
        )
        assert permissions() == Permissions()

    def test_another_class_than_expected_is_refused(self) -> None:
        with pytest.raises(ComponentTypeError, match=r"Greeter is no Pair") as raised:
            Pair.load_component(dump(greeting="Hi"), providers=[Greeter])
        assert isinstance(raised.value, TypeError)
        with pytest.raises(TypeError, match="is no component"):
            ComponentLoader.load_component(dump("a.b"), providers={"a.b": dict})

    def test_a_config_that_does_not_fit_is_told_without_its_values(self) -> None:
        with pytest.raises(
            ComponentConfigError, match=r"Greeter: greeting: Field required; name: "
        ) as raised:
            Greeter.load_component(dump(name=["s3cret"]))
        assert raised.value.__cause__ is None
        assert "s3cret" not in str(raised.value)
        with pytest.raises(ValueError, match="ComponentModel: config: Field required"):
            Greeter.load_component({"provider": PLACE})

    def test_the_dump_is_not_changed(self) -> None:
        model = ComponentModel(provider="openai_chat_completion_client", config={"model": 3})
        with pytest.raises(ComponentError):
            ComponentLoader.load_component(model)
        assert model.provider == "openai_chat_completion_client"


class TestVersions:
    def test_an_older_config_goes_to_the_hook(self) -> None:
        made = ComponentLoader.load_component(dump("old", 2, hello="Hi"), providers={"old": Grown})
        assert isinstance(made, Grown)
        assert made.greeting == "Hi of 2"

    def test_without_a_version_it_is_the_current_one(self) -> None:
        assert Greeter.load_component(dump(greeting="Hi")).greeting == "Hi"

    @pytest.mark.parametrize(("version", "hint"), [(1, "dump it again"), (4, "update the package")])
    def test_others_are_refused(self, version: int, hint: str) -> None:
        with pytest.raises(NotImplementedError, match=hint) as raised:
            ComponentLoader.load_component(dump("old", version, greeting="Hi"), providers={"old": Grown})
        assert isinstance(raised.value, ComponentVersionError)


class TestDeclaring:
    def test_what_is_a_component(self) -> None:
        made: Any = Greeter("a")
        assert is_component_instance(made)
        assert is_component_class(Greeter)
        assert not is_component_class(ComponentBase)
        assert not is_component_instance(Greeter)

    def test_a_class_without_its_variables_or_half_of_its_bases_is_warned_of(self) -> None:
        with pytest.warns(UserWarning, match="Bare needs a class variable component_config_schema"):

            class Bare(ComponentBase[GreeterConfig], Component[GreeterConfig]):
                component_type = "odd"

        with pytest.raises(ComponentTypeError, match="component_config_schema"):
            Bare.load_component({"provider": "bare", "config": {}}, providers={"bare": Bare})
        with pytest.warns(UserWarning, match="Half derives from Component and not from ComponentBase"):

            class Half(Component[GreeterConfig]):
                component_type = "odd"
                component_config_schema = GreeterConfig

        with pytest.raises(NotImplementedError, match="Half can't be made from a config"):
            Half._from_config(GreeterConfig(greeting="a"))

    def test_only_components_are_registered_and_only_once(self) -> None:
        with pytest.raises(AttributeError, match="component_config_schema"):
            register_component(dict)
        register_component(Greeter)
        register_component(Greeter)
        with pytest.raises(ValueError, match="provider of another class"):
            register_component(type("Other", (Greeter,), {"component_provider_override": PLACE}))

    @pytest.mark.parametrize(
        "provider",
        ["callboard.memory.ListMemory", "autogen_core.memory.ListMemory", "OpenAIChatCompletionClient"],
    )
    def test_no_class_takes_the_name_of_one_of_ours(self, provider: str) -> None:
        with pytest.raises(ValueError, match="provider of another class"):
            register_component(type("Other", (Greeter,), {"component_provider_override": provider}))

    def test_the_four_parts_may_be_bases_each_by_itself(self) -> None:
        class Parts(
            ComponentFromConfig[GreeterConfig],
            ComponentSchemaType[GreeterConfig],
            ComponentToConfig[GreeterConfig],
            ComponentLoader,
        ):
            component_type = "odd"
            component_config_schema = GreeterConfig

        assert is_component_class(Parts)
