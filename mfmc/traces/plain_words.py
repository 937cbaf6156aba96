"""Sentences that say what the estimator can be trusted with, from the figures of a validation."""

from __future__ import annotations

from typing import Any

from mfmc.traces.assumptions import DISTINCT_TIMES, TICKS

DEPENDENT = 0.1  # smaller correlations do not matter beside the other errors of a mean-field figure
FEW_CONVERSATIONS = 200
FEWEST_FOR_A_TEST = 30  # conversations or gaps; fewer show any dependence by chance


def plain_words(found: dict[str, Any], clock: str) -> list[str]:
    """The most important first: can anything be estimated, then each assumption."""
    tests = found["assumptions"]
    sentences = [_rows(found["rows"]), _use(found, clock)]
    sentences += _append_only(tests["append_only"], found)
    sentences += _sizes(tests["size_independence"])
    sentences += _gaps(tests["gap_independence"], clock)
    sentences += _arrivals(tests["arrivals"], clock)
    sentences += _tails(tests["tails"])
    sentences += _censoring(tests["censoring"])
    sentences += _sensitivity(found["sensitivity"])
    shape = found["shape"]
    if shape["sample_every"] > 1:
        sentences.append(
            f"Sizes, gaps and their tests come from every {shape['sample_every']}th conversation"
            f" ({shape['sample_turns']:,} turns); rows, turns and arrivals count everything."
        )
    if found["endless_cache"]:
        shares = found["endless_cache"]
        sentences.append(
            f"An endless cache would serve {shares['of_blocks']:.1%} of the blocks,"
            f" {shares['of_tokens']:.1%} of the tokens and"
            f" {shares['of_full_blocks']:.1%} of the full blocks, shared beginnings of different"
            " conversations included;"
            " the model counts reuse within a conversation only."
        )
    return sentences


def _rows(rows: dict[str, Any]) -> str:
    line = f"{rows['rows_kept']:,} of {rows['rows_read']:,} rows were used"
    if not rows["rows_rejected"]:
        return line + ", none was rejected."
    worst = max(rows["rejected"].items(), key=lambda item: item[1]["count"])
    if len(rows["rejected"]) == 1:
        return f"{line}; {rows['rows_rejected']:,} rejected: {worst[0]}."
    return f"{line}; most of the {rows['rows_rejected']:,} others: {worst[0]}."


def _use(found: dict[str, Any], clock: str) -> str:
    shape, constants = found["shape"], found["constants"]
    reuse = constants["reuse_ceiling"]
    if constants["mean_turns"] < 1.0005:
        return (
            "No conversation continues in a way that a prefix cache can use: the file gives lengths"
            + (" and arrivals" if clock == "shared" else "")
            + ", but no reuse can be estimated from it."
        )
    missing = {
        "shared": "everything that the estimator needs is in the file",
        "per conversation": "the file has sizes and gaps, but no arrivals: give the arrival rate",
        "none": "the file has sizes only: give the arrival rate and a gap law",
    }[clock]
    few = (
        ""
        if shape["conversations_for_the_cache"] >= FEW_CONVERSATIONS
        else (
            f" With {shape['conversations_for_the_cache']} conversations every figure is rough: use the"
            " bootstrap interval."
        )
    )
    return (
        f"At most {reuse:.1%} of the blocks that are looked up can ever be hits in their conversation, and"
        f" {missing}.{few}"
    )


def _append_only(test: dict[str, Any], found: dict[str, Any]) -> list[str]:
    share = test["append_only_share"]
    if share is None:
        return []
    if share >= 0.99:
        return [f"Conversations only append in {share:.1%} of the turns, as the model assumes."]
    rest = found["shape"]["conversations_for_the_cache"] - found["shape"]["conversations"]
    return [
        f"Only {share:.1%} of the continuing prompts extend the one before ({test['nondecreasing_share']:.1%} are not"
        f" shorter). The rest ({rest:,}) begin new conversations for the cache; what they still share with the old"
        " ones is not counted, so the estimate errs on the low side."
    ]


def _sizes(test: dict[str, Any]) -> list[str]:
    ratio, conversations = test["ratio"], test["turns_with_first_blocks"]["pairs"]
    if ratio is None or test["reusable_blocks"] < 0.1 or conversations < FEWEST_FOR_A_TEST:
        return []
    if abs(ratio - 1) < 0.05:
        return [
            f"Sizes hardly depend on the number of turns (reusable blocks {ratio:.2f} times the independent"
            " value)."
        ]
    return [
        f"The number of turns and the sizes depend on each other: {_plain(test['reusable_blocks'])} reusable blocks a"
        f" conversation where independence would give {_plain(test['reusable_blocks_if_independent'])}. Resample whole"
        " conversations (the estimator does); a fitted law with independent sizes would mislead."
    ]


def _gaps(test: dict[str, Any], clock: str) -> list[str]:
    if not test["count"]:
        return (
            []
            if clock == "none"
            else ["No conversation has a second turn with a time, so there are no gaps."]
        )
    sentences = []
    dependent = [
        f"{text} (correlation {test[name]['value']:.2f} on a log scale)"
        for name, text in (
            ("autocorrelation", "successive gaps are correlated"),
            ("with_turn", "gaps change with the turn"),
        )
        if _matters(test[name])
    ]
    if dependent:
        sentences.append(
            f"Gaps are not independent of each other: {' and '.join(dependent)}. The mean-field figure uses"
            " their overall law;"
            " compare it with the replay of this file."
        )
    elif test["count"] < FEWEST_FOR_A_TEST:
        sentences.append(f"Too few gaps ({test['count']}) to tell whether they depend on each other.")
    else:
        sentences.append("Successive gaps look independent and alike from turn to turn.")
    spread = test["coefficient_of_variation"]
    if spread is not None and spread > 2:
        sentences.append(
            f"Gaps are far from exponential (standard deviation {spread:.1f} times the mean): use the"
            " empirical law."
        )
    kinds = {row["kind"]: row for row in test["by_kind"]}
    if "human" in kinds and "tool" in kinds:
        sentences.append(
            f"Two kinds of gaps mix: median {kinds['human']['median']:.3g} s before a person's prompt and"
            f" {kinds['tool']['median']:.3g} s before a tool's result."
        )
    return sentences


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}"


def _matters(correlation: dict[str, Any]) -> bool:
    """Large, and larger than chance (five standard errors)."""
    value = correlation["value"]
    return value is not None and abs(value) > max(DEPENDENT, 5 * correlation["standard_error"])


def _arrivals(test: dict[str, Any], clock: str) -> list[str]:
    if not test["count"] or not test.get("dispersion"):
        return ["Arrivals cannot be tested: too few, or over too short a time."] if clock == "shared" else []
    rows, sentences = test["dispersion"], []
    wrong = [row for row in rows if not row["poisson"]]
    if wrong:
        worst = max(wrong, key=lambda row: row["dispersion"])
        sentences.append(
            f"Arrivals are no Poisson process: counts over {worst['width_seconds']:g} s vary"
            f" {worst['dispersion']:.3g} times as"
            " much as Poisson counts. Bursts make the real hit ratio swing around the estimate; replay for"
            " the spread."
        )
    else:
        sentences.append("Arrival counts vary as those of a Poisson process do.")
    if test["distinct_times"] < DISTINCT_TIMES * test["count"]:
        tick = test["tick_seconds"]
        sentences.append(
            f"Arrivals share time stamps ({test['distinct_times']:,} distinct times for {test['count']:,}): times are"
            " rounded or batched, so no gap is known better than that"
            + ("." if tick is None else f"; counts are tested over {TICKS} steps of {tick:.3g} s or more.")
        )
    hours = [row["rate"] for row in test.get("by_hour", [])]
    if len(hours) >= 6 and max(hours) > 2 * min(hours):
        sentences.append(
            "The arrival rate changes over the day by a factor of"
            f" {max(hours) / max(min(hours), 1e-12):.3g}: size the memory"
            " for the busy hours, with their rate."
        )
    return sentences


def _tails(test: dict[str, Any]) -> list[str]:
    growth = test.get("lifetime_excess_growth")
    sentences = []
    if growth is not None and growth > 1.5:
        index = test["lifetime_tail_index"]
        near, far = (row["level"] for row in test["lifetime_mean_excess"][-2:])
        sentences.append(
            f"Conversation sizes have a heavy-looking tail (the mean excess grows {growth:.2g}-fold from the {near:.4g}"
            f" to the {far:.4g} quantile"
            + ("" if index is None else f", tail index {index:.2g}")
            + "): Assumption B.3 and the finite-N bounds are doubtful, the mean-field figure needs only means."
        )
    elif growth is not None:
        sentences.append(
            "Conversation sizes have a tail no heavier than exponential, as Assumption B.3 wants."
        )
    gap_index = test.get("gap_tail_index")
    if gap_index is not None and gap_index < 1.2:
        sentences.append(
            f"The longest gaps decide their mean (tail index {gap_index:.2g}): quote medians, and do not"
            " trust the mean gap."
        )
    return sentences


def _censoring(test: dict[str, Any]) -> list[str]:
    share = test["open_at_end_share"]
    if share is None or share < 0.05:
        return []
    return [
        f"{share:.1%} of the conversations were last heard of within one long gap"
        f" ({test['usual_gap_seconds']:.3g} s, the 90%"
        " point) of the end of the file and may go on after it: turns and gaps are biased low; prefer the"
        " Kaplan-Meier law."
    ]


def _sensitivity(rows: list[dict[str, int]]) -> list[str]:
    middle = [row for row in rows if 4 <= row["fan_out_limit"] <= 128]
    if len(middle) < 2:
        return []
    counts = [row["sessions"] for row in middle]
    return [
        f"Conversations are reconstructed from block hashes: {min(counts):,} to {max(counts):,} of them for"
        " fan-out limits"
        f" {middle[0]['fan_out_limit']} to {middle[-1]['fan_out_limit']}."
    ]
