-- The exchanges of an item, by the item and out of the index alone. Without the last exchange in it the other index, which
-- begins with the exchange, is as good to the planner, and leads past all items that the agent ever had.
ALTER TABLE summary_item_ranges
  DROP CONSTRAINT summary_item_ranges_pkey,
  ADD CONSTRAINT summary_item_ranges_pkey PRIMARY KEY (agent_id, item, first_exchange) INCLUDE (last_exchange);
