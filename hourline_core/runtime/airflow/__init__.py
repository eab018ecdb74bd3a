"""Hourline's own Airflow: all of its parts on this machine, on PostgreSQL, stopped together.

    stack.py           starts the parts, keeps them running, stops them
    postgres.py        the metadata database, if the settings name none
    configuration.py   airflow.cfg, the environment and the generated secrets
    run_retention.py   deletes old runs and logs
    api.py             the client of Airflow's API
    health.py          the status of the parts and the DAGs

Files in the workspace:

<workspace>/airflow/              AIRFLOW_HOME: airflow.cfg, logs/ of tasks, secrets.json (mode 0600), postgres/
<workspace>/logs/airflow-*.log    the output of each part
<workspace>/run/airflow.json      the address of the running Airflow
"""
