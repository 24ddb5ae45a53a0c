"""The parts of a run that do not depend on the language, shared by the providers.

`CallDesk` runs binding calls, `Journal` keeps their record, `LogBook` admits logs, `Settlement`
holds the one outcome, `PacedSender` writes frames, `RunDirectories` owns the private working
directories.
"""
