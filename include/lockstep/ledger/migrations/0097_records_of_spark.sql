-- Spark's own count of an attempt's records. Null: Spark did not say, or an older version has read.
alter table spark_run add column records bigint check (records >= 0);
