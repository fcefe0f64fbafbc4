"""Waits for a person's approval in a task, and writes Airflow's record of it into the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator

from lockstep.airflow.history import asked

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lockstep.airflow.door import Door


class RecordedApproval(ApprovalOperator):
    """The task that shows the effect on the ledger, and records the response when Airflow resumes it.

    The response is Airflow's own record. XComs are no evidence, because any user with edit rights can write one.
    """

    def __init__(self, *, door: Door, approvers: tuple[str, ...] = (), **settings: Any) -> None:
        users = [{"id": each, "name": each} for each in approvers]
        super().__init__(assigned_users=users or None, **settings)
        self.door = door
        self.approvers = approvers

    def execute(self, context: Context) -> Any:
        """Asks for approval, and shows the ledger's own account of the request."""
        self.subject, self.body = asked.shown_to_approver(self.door)
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Records an approval, or refuses it. A rejection changes nothing."""
        if "error" not in event and list(event["chosen_options"]) == [self.APPROVE]:
            asked.record_approval(self.door, event, self.approvers)
        return super().execute_complete(context, event)
