-- Spark's own count of what a transform was given. Null: there was none, or Spark did not say.
alter table spark_run add column records bigint check (records >= 0);
