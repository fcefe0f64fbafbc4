"""Gives each command an example, which its `--help` shows last."""

from __future__ import annotations

EXAMPLES = {
    "migrate": 'lockstep migrate orders --apply 0c1d2e3f4a5b6c7d --reason "orders have a channel"',
    "new": 'lockstep new refunds --topic refunds.v1 --key id --columns "id string, amount decimal(12,2)"',
    "check": "lockstep check orders",
    "try": "lockstep try orders --file sample.jsonl --key order_id",
    "canary": "lockstep canary orders --transform new.py --batches 3",
    "promote": 'lockstep promote orders --transform new.py --reason "tried by a canary"',
    "adopt": "lockstep adopt orders --group orders-loader",
    "plan": "lockstep plan orders --dry-run",
    "run": "lockstep run orders --until-idle",
    "replay": "lockstep replay orders --from 2026-05-01T12:00 --until 2026-05-01T13:00 --preview",
    "fill": "lockstep fill orders --partition 3",
    "status": "lockstep status orders",
    "retention": "lockstep retention orders --alarm 12",
    "watch": "lockstep watch orders --every 2",
    "metrics": "lockstep metrics --serve 9300",
    "batches": "lockstep batches orders --last 20",
    "batch": "lockstep batch 4711",
    "hours": "lockstep hours orders --since 2026-05-01T00:00",
    "lineage": "lockstep lineage orders --partition 3 --offset 4711",
    "blame": "lockstep blame orders --key o-4711",
    "windows": "lockstep windows sales --last 24",
    "late": 'lockstep late sales --admit --reason "the shop was offline"',
    "changes": "lockstep changes orders --from 4711 --limit 100 --json",
    "relay": "lockstep relay orders --until-idle",
    "holes": "lockstep holes orders --explain",
    "rejects": "lockstep rejects orders --redrive --preview",
    "skip": 'lockstep skip orders --to latest --reason "urgent"',
    "accept-loss": 'lockstep accept-loss orders --partition 3 --from 17 --until 20 --reason "deleted by retention"',
    "retire": 'lockstep retire orders --reason "the topic was made anew"',
    "hand-over": 'lockstep hand-over public.orders --from orders --to shop_orders --reason "the shop takes over"',
    "erase": 'lockstep erase orders --key o-4711 --column order_id --reason "case 12"',
    "restored": 'lockstep restored orders --reason "restored to 12:00"',
    "pause": 'lockstep pause orders --reason "upgrade"',
    "unpause": 'lockstep unpause orders --reason "upgraded"',
    "abandon": 'lockstep abandon 4711 --reason "its topic is gone"',
    "forget": 'lockstep forget orders --reason "the shop closed"',
    "rename": 'lockstep rename orders shop_orders --reason "a better name"',
    "clone": "lockstep clone orders --to orders_by_customer",
    "doctor": "lockstep doctor orders",
    "verify": "lockstep verify orders --deep",
    "certificate": "lockstep certificate orders --batch 4711 --key signing.pem",
    "reap": "lockstep reap --json",
    "dev up": "lockstep dev up --airflow",
    "dev down": "lockstep dev down",
    "dev status": "lockstep dev status --password",
    "dev env": 'eval "$(lockstep dev env)"',
    "dev topic": "lockstep dev topic refunds --partitions 4",
    "dev produce": "lockstep dev produce refunds --from refunds.jsonl --key id",
}


def example_of(command: str) -> str:
    """Returns the last line of a command's help."""
    return f"Example: {EXAMPLES[command]}"
