"""The tree of errors: what catches what, and that each survives the way from a task to the driver."""

import inspect
import pickle

import pytest

from paimon_spark import errors

TREE = {
    "TableNotFoundError": ("PaimonError",),
    "TableBusyError": ("PaimonError",),
    "OptionError": ("PaimonError", "ValueError"),
    "UnsupportedError": ("PaimonError", "NotImplementedError"),
    "CorruptTableError": ("PaimonError",),
    "StorageError": ("PaimonError", "OSError"),
    "MissingFileError": ("StorageError", "FileNotFoundError"),
    "ExistingFileError": ("StorageError", "FileExistsError"),
    "StorageDeniedError": ("StorageError", "PermissionError"),
    "ExpiredFileError": ("CorruptTableError",),
    "SnapshotNotFoundError": ("PaimonError",),
    "SchemaError": ("PaimonError",),
    "SchemaMismatchError": ("SchemaError",),
    "SchemaChangeError": ("SchemaError",),
    "CommitError": ("PaimonError",),
    "CommitConflictError": ("CommitError",),
    "CommitStateUnknownError": ("CommitError",),
    "CommittedError": ("CommitError",),
    "CatalogServerError": ("PaimonError",),
    "DataError": ("PaimonError",),
}


def test_the_tree_is_the_designs() -> None:
    found = {
        name: tuple(base.__name__ for base in kind.__bases__)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.PaimonError) and kind is not errors.PaimonError
    }
    assert found == TREE


@pytest.mark.parametrize("name", TREE)
def test_errors_are_picklable(name: str) -> None:
    error = getattr(errors, name)("what was wrong")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == "what was wrong"


def test_corrupt_files_carry_their_path() -> None:
    error = errors.CorruptTableError("Cannot read the schema file.", path="/t/schema/schema-0")
    copy = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(error))))
    assert copy.path == "/t/schema/schema-0"
    assert str(copy) == str(error) == "Cannot read the schema file. (file: /t/schema/schema-0)"
    assert str(errors.CorruptTableError("'/t/x' is broken.", path="/t/x")) == "'/t/x' is broken."
