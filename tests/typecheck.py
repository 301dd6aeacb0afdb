"""The run-time type checker of the tests: shapes are checked, and an int is welcome where a float is asked for."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
