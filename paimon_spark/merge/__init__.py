"""Merge engines: sorted Arrow rows in, merged Arrow rows out. No file is opened and no table is known here."""
