"""Every measured point, kept: the store, its records, and files in and out.

Importing this package brings in SQLAlchemy; import it where a store is used.
"""

from lowjoule.store.attempt import Attempt
from lowjoule.store.conversion import records_of, records_of_trials
from lowjoule.store.exchange import read_records, write_records
from lowjoule.store.record import Record
from lowjoule.store.store import Kind, Store, Which

__all__ = [
    "Attempt",
    "Kind",
    "Record",
    "Store",
    "Which",
    "read_records",
    "records_of",
    "records_of_trials",
    "write_records",
]
