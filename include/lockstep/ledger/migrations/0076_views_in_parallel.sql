-- Readers of a view before hidden rows look its batches up in each parallel worker. A parallel scan of this table inside the look
-- would let one process read the whole view.
alter table hidden_batch set (parallel_workers = 0);
