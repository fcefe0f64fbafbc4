-- An approval that does not count is kept as a decision of its own: who asked, who approved, and why it was refused.
alter table decision drop constraint decision_kind_check;
alter table decision add constraint decision_kind_check check (kind in (
    'pause', 'unpause', 'skip', 'accept-loss', 'abandon', 'retire', 'approve', 'refuse-approval', 'grow', 'restored', 'hand-over'));
