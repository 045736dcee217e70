-- An audit trigger that was put on the audit table too: each level writes a row that holds the row before.
-- Reported: https://github.com/2ndQuadrant/audit-trigger/issues/25
-- @ends refused
-- @slow
-- @setup
CREATE TABLE audit (what text, row_data text);
CREATE FUNCTION audit_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF length(NEW.row_data) > 100000000 THEN RETURN NULL; END IF;   -- only here so that a machine survives it
  INSERT INTO audit VALUES (TG_OP, row_to_json(NEW)::text);
  RETURN NULL;
END $$;
CREATE TRIGGER a AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION audit_row();
-- @run
INSERT INTO audit VALUES ('start', repeat('"\', 10));
