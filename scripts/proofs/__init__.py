"""The code of scripts/proof: the searches of the tests with wider bounds and for longer."""
