"""The pages do what they should in a real browser: the right numbers, by mouse and by keyboard, and not one request."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from browser import Visit, a_browser, write_long_run
from table_records import a_result, with_final

from snv.learners import LEARNERS
from snv.report import write_model_report, write_report
from snv.report.assembly import page as assembled
from snv.report.assembly import write_page
from snv.report.model_page import model_page
from snv.runs import read_results

CIFAR = Path(__file__).parents[2] / "results" / "small-cifar"
ALERT = "<img src=x onerror=alert(1)><script>alert(1)</script>"


@pytest.fixture(scope="module")
def browser():
    with a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def cifar(browser, tmp_path_factory):
    """The page of the kept records, in a light theme."""
    file = write_report(read_results([CIFAR]), tmp_path_factory.mktemp("cifar"))
    visit = Visit(browser, file, color_scheme="light")
    yield visit
    visit.check_quiet()
    visit.context.close()


@pytest.fixture(scope="module")
def long(browser, tmp_path_factory):
    """The page of a long run with 4,800 neurons and 50 tasks, its table, and what drawing and using it took."""
    folder = tmp_path_factory.mktemp("long")
    table = write_long_run(folder)
    file = write_report(read_results([folder / "long.json"]), folder / "page")
    visit = Visit(browser, file)
    visit.page.select_option("#map-task", "7")
    visit.page.hover("#map", position={"x": 200, "y": 5})
    yield visit, table, visit.processor_seconds()
    visit.check_quiet()
    visit.context.close()


def rows_of(page) -> list[list[str]]:
    """The text of the table's cells, as a reader sees it."""
    return page.eval_on_selector_all(
        "#results tbody tr:not([hidden])",
        """rows => rows.map(row =>
            [...row.cells].map(cell => (cell.querySelector('td > span') ?? cell).textContent))""",
    )


def names_of(page) -> list[str]:
    return page.eval_on_selector_all(
        "#results tbody tr:not([hidden]) th", "heads => heads.map(head => head.firstChild.textContent)"
    )


# ---- runs


def test_the_numbers_in_the_table_are_those_of_the_records(cifar):
    finals = defaultdict(list)
    for file in CIFAR.glob("*.json"):
        record = json.loads(file.read_text())
        finals[record["method"], record["scenario"].upper()].append(np.mean(record["accuracy"][-1]))
    shown = {(name, row[1]): row[2] for name, row in zip(names_of(cifar.page), rows_of(cifar.page), strict=True)}
    for key, accs in finals.items():
        told = [float(part) for part in shown[key].split(" ± ")]
        assert told == pytest.approx([np.mean(accs), *([np.std(accs, ddof=1)] if len(accs) > 1 else [])], abs=0.0051)
    others = shown.keys() - finals.keys()  # methods that train alike in both, and ran in CIL
    assert all(scenario == "TIL" and LEARNERS[name].card.alike for name, scenario in others)


def test_the_first_screen_names_the_best_of_each_scenario(cifar):
    rows = list(zip(names_of(cifar.page), rows_of(cifar.page), strict=True))
    for scenario in ("til", "cil"):
        card = cifar.page.locator(f".standing[data-scenario={scenario}]")
        contenders = {name: float(row[2].split()[0]) for name, row in rows if row[1] == scenario.upper()}
        del contenders["joint"]  # it has all images at hand, so it is a bound
        assert card.locator(".best").inner_text().split()[0] == max(contenders, key=contenders.__getitem__)
        assert card.bounding_box()["y"] < 300


def test_the_table_is_sorted_by_a_click_and_says_so(cifar):
    head = cifar.page.locator("#results thead th", has_text="ACC").first
    for way, turned in (("descending", True), ("ascending", False)):
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == way
        accs = [float(row[2].split()[0]) for row in rows_of(cifar.page)]
        assert accs == sorted(accs, reverse=turned)
        assert cifar.heard() == f"Sorted by ACC, {way}."


def test_the_table_is_filtered_by_what_rows_are_about(cifar):
    page, before = cifar.page, len(rows_of(cifar.page))
    page.fill("#filter-method", "SG")
    assert set(names_of(page)) == {"sgd"}
    page.select_option("#filter-scenario", "TIL")
    assert [row[1] for row in rows_of(page)] == ["TIL"]
    assert page.inner_text("#shown") == f"1 of {before} rows"
    page.fill("#filter-method", "")
    page.select_option("#filter-scenario", "")
    assert len(rows_of(page)) == before


def test_a_matrix_is_enlarged_with_its_numbers_and_closed_by_escape(cifar):
    page = cifar.page
    tile = page.locator(".matrices[data-scenario=til] .tile", has_text="sgd")
    tile.click()
    record = json.loads((CIFAR / "sgd-til-seed0.json").read_text())
    shown = page.eval_on_selector_all(
        "dialog[open] tbody tr",
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))",
    )
    assert [len(row) for row in shown] == list(range(1, 11))
    for i, row in enumerate(shown):
        assert [float(cell) for cell in row] == pytest.approx(record["accuracy"][i][: i + 1], abs=0.051)
    page.hover("dialog[open] tbody tr:last-child td:nth-of-type(1)")
    assert f"task 1 after task 10\n{record['accuracy'][9][0]:.3f} %" in page.inner_text("#tip")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert tile.evaluate("tile => tile === document.activeElement")


def test_curves_and_bars_tell_their_numbers_under_the_pointer(cifar):
    page = cifar.settled()
    dot = page.locator(".curves[data-scenario=cil] svg g[data-label=sgd] :is(circle, rect, path)").last
    dot.hover(force=True)
    record = json.loads((CIFAR / "sgd-cil-seed0.json").read_text())
    assert page.inner_text("#tip") == f"sgd\nafter task 10: {np.mean(record['accuracy'][-1]):.2f} %"
    bar = page.locator(".costs[data-scenario=til] svg rect").first
    bar.hover()
    assert "train: " in page.inner_text("#tip")


def test_the_legend_hides_a_line_and_brings_it_back(cifar):
    page = cifar.settled()
    lines = page.locator(".curves svg g[data-label=lwf]")
    button = page.locator(".legend button", has_text="lwf")
    before = lines.count()
    button.click()
    assert (lines.count(), button.get_attribute("aria-pressed")) == (0, "false")
    button.click()
    assert (lines.count(), button.get_attribute("aria-pressed")) == (before, "true")


def test_curves_show_one_task_if_asked(cifar):
    page = cifar.settled()
    page.select_option("#curve-task", "0")
    record = json.loads((CIFAR / "sgd-til-seed0.json").read_text())
    cells = page.eval_on_selector_all(
        ".curves[data-scenario=til] tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    sgd = next(row for row in cells if row[0] == "sgd")
    assert sgd[1:] == [f"{row[0]:.2f}" for row in record["accuracy"]]
    page.select_option("#curve-task", "-1")


def test_a_seed_leads_to_its_run_with_command_config_and_environment(cifar):
    page = cifar.page
    page.locator("#results tbody tr", has_text="ewc").filter(has_text="TIL").locator("td a").first.click()
    run = page.locator("details.run[open]")
    text = run.inner_text()
    assert "snv run method=ewc scenario=til seed=0 data.name=cifar100" in text
    assert "learner.strength" in text
    assert "Not kept with this record." in text
    assert "results/small-cifar/ewc-til-seed0.json" in text.replace("\\", "/")


def test_the_theme_follows_the_system_until_it_is_chosen(cifar, browser):
    def ground(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    dark = Visit(browser, cifar.file, color_scheme="dark")
    light = ground(cifar.page)
    assert ground(dark.page) != light
    dark.page.click("#theme")
    assert ground(dark.page) == light
    dark.check_quiet()
    dark.context.close()


def test_the_page_has_landmarks_captions_and_words_for_every_picture(cifar):
    page = cifar.settled()
    assert page.locator("header, nav, main").count() == 3
    assert page.locator("table:not(:has(caption))").count() == 0
    pictures = page.locator("main canvas:not([aria-hidden=true]), main svg:not([aria-hidden=true])")
    assert pictures.count() > 10
    assert pictures.evaluate_all("all => all.filter(one => !one.getAttribute('aria-label')).length") == 0
    names = page.locator("[id]").evaluate_all("all => all.map(one => one.id)")
    assert len(names) == len(set(names))


def test_all_can_be_reached_and_used_by_keyboard(cifar):
    page = cifar.page
    page.focus("body > :first-child")  # leads past all that comes before the results
    seen = []
    for _ in range(60):
        seen.append(page.evaluate("(x => x.id || x.className || x.textContent)(document.activeElement)"))
        if page.evaluate("document.activeElement.matches('#results thead button')"):
            break
        page.keyboard.press("Tab")
    assert seen[0] == "skip"
    assert {"theme", "filter-method"} <= set(seen)
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert cifar.heard().startswith("Sorted by method, ")
    page.focus(".matrices .tile")
    page.keyboard.press("Enter")
    assert page.locator("dialog[open]").count() == 1
    page.keyboard.press("Enter")  # the focus is on its button
    page.wait_for_selector("dialog", state="detached")


def test_the_page_fits_a_narrow_window(cifar):
    page = cifar.page
    page.set_viewport_size({"width": 380, "height": 800})
    cifar.settled()
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    page.set_viewport_size({"width": 1300, "height": 900})


def test_it_prints_all_sections_and_no_controls(cifar):
    page = cifar.page
    page.emulate_media(media="print")
    assert page.locator("nav, #theme, #filter-method").evaluate_all("all => all.every(x => x.offsetParent === null)")
    assert page.locator("main section").evaluate_all("all => all.every(x => x.offsetHeight > 0)")
    page.emulate_media(media="screen")
    assert page.pdf()[:5] == b"%PDF-"


# ---- neurons


def test_4800_neurons_of_50_tasks_are_usable_within_two_seconds_and_small(long):
    visit, _, seconds = long
    assert visit.file.stat().st_size < 5_000_000
    assert seconds < 2


def test_the_map_follows_the_pointer_without_stutter(long):
    visit, _, _ = long
    spent = visit.page.evaluate(
        """() => {
            const map = document.getElementById('map'), box = map.getBoundingClientRect(), rounds = [];
            for (let round = 0; round < 5; round += 1) {
                const start = performance.now();
                for (let k = 0; k < 40; k += 1) map.dispatchEvent(new PointerEvent('pointermove', {
                    clientX: box.left + 140 + (k * 7) % 500, clientY: box.top + 4 + 9 * k, bubbles: true }));
                rounds.push((performance.now() - start) / 40);
            }
            return Math.min(...rounds);
        }"""
    )
    assert spent < 16  # milliseconds: a frame


def first_neuron(page) -> None:
    """Go there by key, wherever the pointer was."""
    page.focus("#map")
    for _ in range(8):
        page.keyboard.press("PageUp")


def test_the_map_tells_values_and_owners_as_they_were_kept(long):
    visit, table, _ = long
    page = visit.page
    page.select_option("#map-task", "7")
    own = table.masks[7]
    new = own & ~table.masks[:7].any(0)
    assert page.inner_text("#subnetwork") == (
        f"task 8: {own.sum()} neurons, {new.sum()} of them new, {own.sum() - new.sum()} reused (a dot)."
    )
    first_neuron(page)
    title, value, owners = visit.heard().split("\n")
    assert title == "layer0.conv, neuron 1 of 600"
    assert float(value.removeprefix("φ for task 8 ")) == pytest.approx(table.values[7, 0], rel=6e-3)
    whose = [t for t in range(50) if table.masks[t, 0]]
    assert owners == (f"in {', '.join(f'task {t + 1}' for t in whose)}" if 0 < len(whose) <= 6 else owners)
    assert page.inner_text("#neuron h3") == title


def test_the_map_is_walked_with_keys(long):
    visit, _, _ = long
    page = visit.page
    first_neuron(page)

    def after(key):
        page.keyboard.press(key)
        return visit.heard().split("\n")[0]

    assert visit.heard().split("\n")[0] == "layer0.conv, neuron 1 of 600"
    assert after("ArrowRight") == "layer0.conv, neuron 2 of 600"
    assert after("PageDown") == "layer1.conv, neuron 1 of 600"
    assert after("ArrowLeft") == "layer0.conv, neuron 600 of 600"
    assert after("PageUp") == "layer0.conv, neuron 1 of 600"
    assert after("End") == "layer0.conv, neuron 600 of 600"
    assert after("Home") == "layer0.conv, neuron 1 of 600"
    page.select_option("#map-task", "-1")
    page.focus("#map")
    assert after("]").startswith("task 1: ")
    assert page.eval_on_selector("#map-task", "box => box.value") == "0"
    assert after("[").endswith("neurons belong to one of 50 tasks.")


def test_choosing_a_task_or_a_colouring_paints_another_map(long):
    visit, _, _ = long
    page = visit.page

    def pixels():
        return page.evaluate("document.getElementById('map').toDataURL()")

    page.select_option("#map-task", "-1")
    seen = [pixels()]
    for act in (
        lambda: page.get_by_role("button", name="tasks that have it").click(),
        lambda: page.get_by_role("button", name="first task").click(),
        lambda: page.select_option("#map-task", "3"),
    ):
        act()
        seen.append(pixels())
    assert len(set(seen)) == 4


def test_the_overlap_of_masks_is_that_of_the_table(long):
    visit, table, _ = long
    page = visit.page
    page.click("#overlap-tile")
    page.hover("dialog[open] tbody tr:nth-child(2) td:nth-of-type(1)")
    both = (table.masks[0] & table.masks[1]).sum() / (table.masks[0] | table.masks[1]).sum()
    assert page.inner_text("#tip") == f"task 2 and task 1\n{both:.3f} of the neurons of either are in both"
    page.keyboard.press("Escape")


# ---- whatever names say


def test_hostile_names_of_runs_are_shown_and_do_nothing(browser, tmp_path):
    results = [
        a_result(ALERT, data={"name": ALERT}, accuracy=with_final(50, 60), name=f"{ALERT}.json", **{ALERT: ALERT}),
        a_result("sgd", data={"name": "javascript:alert(1)"}),
    ]
    visit = Visit(browser, write_report(results, tmp_path))
    page = visit.settled()
    assert ALERT in names_of(page)
    page.locator("details.run summary").first.click()
    assert ALERT in page.inner_text("details.run[open]")
    assert page.locator("img, script:not(#data):not(:last-of-type)").count() == 0
    visit.check_quiet()
    visit.context.close()


def test_streams_are_looked_at_one_by_one(browser, tmp_path):
    streams = {"digits": ("sgd", 30), "mnist": ("ewc", 70)}
    results = [a_result(m, data={"name": name}, accuracy=with_final(acc, acc)) for name, (m, acc) in streams.items()]
    visit = Visit(browser, write_report(results, tmp_path))
    page = visit.settled()
    for place, (method, _) in enumerate(streams.values()):
        page.select_option("#stream", str(place))
        assert page.inner_text(".standing .best").startswith(method)
        assert page.locator(".matrices .tile").count() == page.locator(".legend button").count() == 1
    assert len(rows_of(page)) == 2
    visit.check_quiet()
    visit.context.close()


def test_hostile_names_of_tasks_and_classes_do_nothing(browser, taught, tmp_path):
    data = model_page(taught)
    (first, *rest) = assembled_tasks(data)
    first |= {"name": ALERT, "classes": [ALERT, "</td>"]}
    html = assembled({**{name: getattr(data, name) for name in data.__dataclass_fields__}, "tasks": [first, *rest]})
    visit = Visit(browser, write_page(html, tmp_path))
    page = visit.settled()
    assert ALERT in page.inner_text("#tasks-table")
    page.select_option("#map-task", label=ALERT)
    assert page.inner_text("#subnetwork").startswith(ALERT)
    assert page.locator("img").count() == 0
    visit.check_quiet()
    visit.context.close()


def assembled_tasks(data) -> list[dict]:
    from dataclasses import asdict

    return [asdict(task) for task in data.tasks]


def test_nothing_but_the_pages_own_script_runs_even_if_it_were_put_there(browser, tmp_path):
    file = write_report([a_result()], tmp_path)
    text = file.read_text(encoding="utf-8").replace("<noscript>", "<script>window.broken = 1</script><noscript>")
    file.write_text(text, encoding="utf-8")
    visit = Visit(browser, file)
    assert visit.page.evaluate("window.broken === undefined")
    assert any("Content Security Policy" in complaint for complaint in visit.complaints)
    visit.context.close()


# ---- a model


def test_the_page_of_a_model_tells_what_it_knows_and_what_was_proved(browser, taught, tmp_path):
    visit = Visit(browser, write_model_report(taught, tmp_path))
    page, data = visit.settled(), model_page(taught)
    rows = page.eval_on_selector_all(
        "#tasks-table tbody tr", "rows => rows.map(row => [...row.cells].map(c => c.textContent))"
    )
    assert [row[:2] for row in rows] == [[task.name, ", ".join(task.classes)] for task in data.tasks]
    assert [row[3] for row in rows] == [f"{task.accuracy:.1f} %" for task in data.tasks]
    assert "Unchanged" in page.inner_text("#summary")
    assert f"{data.room.fit} more tasks" in page.inner_text("#summary")
    assert data.verdicts[0].told in page.inner_text("#proof-table")
    assert page.locator("#roles tbody tr").count() == len(data.roles)
    assert page.locator("#map").count() == 1
    visit.check_quiet()
    visit.context.close()


def test_the_page_of_a_damaged_model_says_so_first(browser, taught, tmp_path):
    import shutil

    path = shutil.copytree(taught, tmp_path / "pets.snv")
    file = next(path.glob("task-*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1])
    visit = Visit(browser, write_model_report(path, tmp_path / "page"))
    assert "Damaged" in visit.page.inner_text("#summary")
    assert file.name in visit.page.inner_text("#summary")
    visit.check_quiet()
    visit.context.close()
