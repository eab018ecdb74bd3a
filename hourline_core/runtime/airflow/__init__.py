"""An Airflow of Hourline's own: all of its parts on this machine, on a real PostgreSQL, gone when it is told to end.

    stack.py           starts the parts, keeps them running, stops them
    postgres.py        the metadata database, where the settings name none
    configuration.py   airflow.cfg, the environment and the generated secrets
    housekeeping.py    forgets runs that ended long ago
    api.py             asks the running Airflow for its health, its DAGs and their errors

In the workspace are:

<workspace>/airflow/              AIRFLOW_HOME: airflow.cfg, logs/ of tasks, secrets.json (mode 0600), postgres/
<workspace>/logs/airflow-*.log    what each part says
<workspace>/run/airflow.json      where the running Airflow is to be found
"""
