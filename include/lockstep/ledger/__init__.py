"""Every statement about progress: functions over a cursor; the transaction, and its role, belong to the caller."""
