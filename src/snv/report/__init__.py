"""Tables, figures and pages from records and models."""

from __future__ import annotations

from snv.report.analyses import ANALYSES, analyse, file_of
from snv.report.catalogue import TABLES, table
from snv.report.cells import Cell, Column, Row, Table, cell_text
from snv.report.figures import FIGURES, caption_of, figure, save_figure
from snv.report.formats import FORMATS
from snv.report.model_page import write_model_report
from snv.report.paired import Paired, paired
from snv.report.paper import contradictions, paper_value
from snv.report.runs_page import write_report

__all__ = [
    "ANALYSES",
    "FIGURES",
    "FORMATS",
    "TABLES",
    "Cell",
    "Column",
    "Paired",
    "Row",
    "Table",
    "analyse",
    "caption_of",
    "cell_text",
    "contradictions",
    "figure",
    "file_of",
    "paired",
    "paper_value",
    "save_figure",
    "table",
    "write_model_report",
    "write_report",
]
