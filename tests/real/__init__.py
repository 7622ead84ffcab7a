"""Real Ray on local racks."""
