"""The DAGs of the project, for the Airflow of compose.yaml, which looks for this word: airflow."""

import os

from dags import project_dags

project_dags(os.environ["HOURLINE_PROJECT"], workspace=os.environ["HOURLINE_WORKSPACE"])
