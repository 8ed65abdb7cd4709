"""docs/gates.md: the tables between its marks; the text around them is written by hand."""

from collections.abc import Iterable

from recipe.config.gate import (
    AcceptanceGate,
    AnswersGate,
    BatchGate,
    Gate,
    LogsGate,
    LongPromptGate,
    MemoryGate,
    Signal,
    SpeculationGate,
    ThroughputGate,
    load_gate,
)
from recipe.config.gate_parts import Bars
from recipe.config.known_errors import load_known_errors
from recipe.config.load import list_profiles, names
from recipe.config.paths import CHECKOUT
from scripts.pages.text import table

_PAGE = CHECKOUT / "docs" / "gates.md"


def page() -> str:
    """The page as text."""
    text = _PAGE.read_text(encoding="utf-8")
    for mark, content in (("gates", _gates()), ("signals", _signals()), ("known-errors", _errors())):
        begin, end = f"<!-- {mark}: made by `python -m scripts.pages` -->\n", f"<!-- end of {mark} -->"
        before, after = text.split(begin, 1)
        text = f"{before}{begin}\n{content}\n{end}{after.split(end, 1)[1]}"
    return text


def _gates() -> str:
    users: dict[str, list[str]] = {}
    for found in list_profiles(CHECKOUT):
        for name in dict.fromkeys((*found.value.gates.trial, *found.value.gates.certify)):
            trial = " (trial)" if name in found.value.gates.trial else ""
            users.setdefault(name, []).append(f"{found.name}{trial}")
    rows = []
    for name in names(CHECKOUT, "gates"):
        gate = load_gate(CHECKOUT, name)
        rows.append((f"`{name}`", gate.kind, gate.summary, _bar(gate), ", ".join(users.get(name, ["-"]))))
    return table(("gate", "kind", "a pass means", "bar", "profiles"), rows)


def _signals() -> str:
    rows = []
    for name in names(CHECKOUT, "gates"):
        gate = load_gate(CHECKOUT, name)
        if not isinstance(gate, LogsGate):
            continue
        for required in gate.required:
            never = f", never {' or '.join(required.refused)}" if required.refused else ""
            count = f"{required.min_count} times" if required.min_count > 1 else "required"
            rows.append((f"`{name}`", f"`{required.pattern}`", f"{count}{never}{_when(required)}", required.because))
        rows += [(f"`{name}`", f"`{it.pattern}`", f"forbidden{_when(it)}", it.because) for it in gate.forbidden]
    return table(("gate", "pattern", "", "because"), rows)


def _when(signal: Signal) -> str:
    parts = [f"vLLM `{signal.versions}`"] if signal.versions else []
    parts += [f"on {signal.ranks}"] if signal.ranks != "all" else []
    for word, flags in (("with", signal.when), ("unless", signal.unless)):
        for flag, wanted in flags.items():
            values = wanted if isinstance(wanted, tuple) else (wanted,)
            parts.append(f"{word} {' or '.join(f'`{flag}: {value}`' for value in values)}")
    return "".join(f", {part}" for part in parts)


def _errors() -> str:
    rows = [(f"`{it.pattern}`", it.means, it.remedy, it.source) for it in load_known_errors(CHECKOUT)]
    return table(("line", "means", "what to do", "source"), rows)


def _bar(gate: Gate) -> str:
    match gate:
        case AcceptanceGate():
            parts = [_speculative(gate), *(f"{it.name}: {_speculative(it)}" for it in gate.workloads)]
            return "; ".join([*parts, *_runs(gate.fewest_runs, gate.most_runs)])
        case ThroughputGate():
            parts = [f"{it.name} {it.min_tok_s:g} tok/s" for it in gate.workloads]
            return "; ".join([*parts, *_runs(gate.fewest_runs, gate.most_runs)])
        case SpeculationGate():
            return f"{gate.min_agreement:.0%} of the tokens within {gate.tolerance:g} nats"
        case BatchGate():
            return f"{gate.min_same:.0%} of {len(gate.prompts)} texts"
        case AnswersGate():
            return f"all {len(gate.prompts)} answers"
        case LongPromptGate():
            return "the context's length" if gate.at_most is None else f"at most {gate.at_most:,} tokens"
        case MemoryGate():
            return f"{gate.min_free:.0%} of each node, {gate.min_gpu_free:.0%} of each GPU"
        case LogsGate():
            return f"{len(gate.required)} required, {len(gate.forbidden)} forbidden"
        case _:
            return ", ".join(f"with `{flag}`" for flag in gate.needs) or "none"


def _speculative(bars: Bars | AcceptanceGate) -> str:
    rate = [f"rate {bars.min_rate:.0%}"] if bars.min_rate is not None else []
    positions = [f"position {place} {least:.0%}" for place, least in bars.min_per_position.items()]
    return ", ".join([f"length {bars.min_mean_length:g}", *rate, *positions])


def _runs(fewest: int, most: int) -> Iterable[str]:
    return [f"{fewest} to {most} runs"] if most > 1 else []
