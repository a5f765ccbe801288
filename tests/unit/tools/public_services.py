"""Tools of a library, a clinic and a train company, and what people ask for there in their own words."""

from __future__ import annotations

from callboard.tools import FunctionTool


def search_catalogue(title: str = "", author: str = "") -> None:
    """Searches the library's catalogue for books.

    Args:
        title: Words of the title.
        author: Name of the author.
    """


def renew_loan(card: str, item: str) -> None:
    """Extends the loan of a borrowed item by three weeks.

    Args:
        card: Number of the reader's card.
        item: Barcode of the item.
    """


def reserve_book(card: str, isbn: str) -> None:
    """Puts a reader on the waiting list for a book."""


def list_loans(card: str) -> None:
    """Lists the items that a reader has borrowed, with their due dates."""


def pay_fine(card: str, cents: int) -> None:
    """Settles an overdue fine of a reader."""


def book_reading_room(date: str, seats: int) -> None:
    """Reserves seats in the reading room."""


def book_appointment(patient: str, doctor: str, day: str) -> None:
    """Makes an appointment with a doctor of the clinic."""


def cancel_appointment(patient: str, day: str) -> None:
    """Cancels an appointment of a patient."""


def get_lab_results(patient: str, test: str) -> None:
    """Returns results of laboratory tests.

    Args:
        patient: Number of the patient.
        test: Such as blood count or cholesterol.
    """


def refill_prescription(patient: str, medicine: str, pharmacy: str) -> None:
    """Orders a refill of a prescribed medicine at a pharmacy."""


def list_vaccinations(patient: str) -> None:
    """Lists vaccinations of a patient and when the next ones are due."""


def find_specialist(field: str, town: str) -> None:
    """Finds a specialist to whom a patient can be referred."""


def search_connections(origin: str, destination: str, departure: str) -> None:
    """Searches for train connections between two stations."""


def buy_ticket(connection: str, passengers: int, travel_class: int = 2) -> None:
    """Buys tickets for a train connection."""


def reserve_seat(connection: str, carriage: str, by_window: bool = False) -> None:
    """Reserves a seat in a carriage of a train."""


def get_delay(train: str) -> None:
    """Returns the current delay of a train in minutes."""


def claim_compensation(ticket: str, minutes: int) -> None:
    """Claims compensation for a passenger whose train was late."""


def report_lost_property(train: str, description: str) -> None:
    """Reports an object that was left on a train."""


TOOLS = [
    FunctionTool(function)
    for function in (
        search_catalogue, renew_loan, reserve_book, list_loans, pay_fine, book_reading_room, book_appointment,
        cancel_appointment, get_lab_results, refill_prescription, list_vaccinations, find_specialist,
        search_connections, buy_ticket, reserve_seat, get_delay, claim_compensation, report_lost_property,
    )
]  # fmt: skip
QUESTIONS = {
    "Do you have anything by Ursula Le Guin?": "search_catalogue",
    "I need a bit longer with the novel I took out last week": "renew_loan",
    "Somebody else has Middlemarch, can I get it after them?": "reserve_book",
    "Which books are still at my home, and until when?": "list_loans",
    "I brought it back too late, what do I do about the three euros?": "pay_fine",
    "We are four students and would like to study in the reading room on Monday": "book_reading_room",
    "Can Dr Hansen see me on Thursday?": "book_appointment",
    "I can't come to my appointment tomorrow": "cancel_appointment",
    "Has my blood test come back yet?": "get_lab_results",
    "I am running out of my pills for high blood pressure": "refill_prescription",
    "When did I last have a tetanus shot?": "list_vaccinations",
    "My knee hurts and my doctor says an orthopaedist should look at it": "find_specialist",
    "How do I get from Lille to Ghent on Sunday morning?": "search_connections",
    "Two adults to Lyon on the 9:14, first class please": "buy_ticket",
    "I would like to sit by the window": "reserve_seat",
    "Is the 17:02 to Basel on time?": "get_delay",
    "We got there two hours late, do I get my money back?": "claim_compensation",
    "I left my umbrella on the train": "report_lost_property",
}
"""A question -> the tool that answers it. Written before a search was tried with them, and not changed since."""


def missed(found: dict[str, list[str]]) -> list[str]:
    """Questions whose tool is not among the first three that were found for them."""
    return [question for question, name in QUESTIONS.items() if name not in found[question][:3]]
