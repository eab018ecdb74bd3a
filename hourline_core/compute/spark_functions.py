"""Classifies the functions of Spark SQL: those that give the same value for an event each time, and the others.

A test compares the lists with the functions of the installed Spark. A function that is in neither list is refused.
"""

_REPEATABLE = {
    "comparisons and logic": """
        ! != < <= <=> <> = == > >= and case equal_null ilike in isnan isnotnull isnull like not or regexp
        regexp_like rlike ||""",
    "numbers": """
        % * + - / abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc
        degrees div e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi
        pmod positive pow power radians rint round sec sign signum sin sinh sqrt tan tanh try_add try_divide
        try_mod try_multiply try_subtract unhex width_bucket""",
    "bits": """
        & << >> >>> ^ bit_count bit_get getbit shiftleft shiftright shiftrightunsigned | ~""",
    "times": """
        add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part date_sub
        date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime
        from_utc_timestamp hour last_day make_date make_dt_interval make_interval make_time make_timestamp
        make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname months_between next_day
        quarter second time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros
        time_to_millis time_to_seconds time_trunc timestamp_micros timestamp_millis timestamp_seconds to_date
        to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc
        try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_to_date
        try_to_time try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday
        weekofyear year""",
    "others": """
        aes_decrypt bitmap_bit_position bitmap_bucket_number bitmap_count try_aes_decrypt typeof""",
    "functions of functions": """
        aggregate array_sort exists filter forall map_filter map_zip_with reduce transform transform_keys
        transform_values zip_with""",
    "sketches": """
        approx_top_k_estimate hll_sketch_estimate hll_union kll_sketch_get_n_bigint kll_sketch_get_n_double
        kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
        kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double
        kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
        kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float theta_difference
        theta_intersection theta_sketch_estimate theta_union tuple_difference_double tuple_difference_integer
        tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_double
        tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
        tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double
        tuple_sketch_summary_integer tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_double
        tuple_union_integer tuple_union_theta_double tuple_union_theta_integer""",
    "arrays": """
        array array_append array_compact array_contains array_distinct array_except array_insert array_intersect
        array_join array_max array_min array_position array_prepend array_remove array_repeat array_size
        array_union arrays_overlap arrays_zip flatten get sequence slice sort_array""",
    "texts": """
        ascii base64 bit_length btrim char char_length character_length chr collate collation concat_ws contains
        decode elt encode endswith find_in_set format_number format_string initcap instr is_valid_utf8 lcase
        left len length levenshtein locate lower lpad ltrim luhn_check make_valid_utf8 mask octet_length overlay
        position printf quote regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace
        regexp_substr repeat replace right rpad rtrim sentences soundex space split split_part startswith substr
        substring substring_index to_binary to_char to_number to_varchar translate trim try_to_binary
        try_to_number try_validate_utf8 ucase unbase64 upper validate_utf8""",
    "conditions": """
        between coalesce if ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull""",
    "types": """
        bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint""",
    "collections": """
        cardinality concat element_at reverse size try_element_at""",
    "hashes": """
        crc32 hash md5 sha sha1 sha2 xxhash64""",
    "Avro": """
        from_avro schema_of_avro to_avro""",
    "CSV": """
        from_csv schema_of_csv to_csv""",
    "JSON": """
        from_json get_json_object json_array_length json_object_keys schema_of_json to_json""",
    "XML": """
        from_xml schema_of_xml to_xml xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long
        xpath_number xpath_short xpath_string""",
    "VARIANT": """
        is_valid_variant is_variant_null parse_json schema_of_variant to_variant_object try_parse_json
        try_variant_get variant_get""",
    "maps": """
        map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values
        str_to_map""",
    "structs": """
        named_struct struct""",
    "URLs": """
        parse_url try_parse_url try_url_decode url_decode url_encode""",
    "geography": """
        st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid""",
    "vectors": """
        vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize""",
}
"""By subject, the functions of one event that depend on their arguments alone."""

REPEATABLE = frozenset(name for names in _REPEATABLE.values() for name in names.split())

_AGGREGATES = """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg
    bool_and bool_or collect_list collect_set corr count count_if count_min_sketch covar_pop covar_samp every
    first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
    kurtosis last last_value listagg max max_by mean measure median min min_by mode percentile percentile_approx
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
    regr_sxy regr_syy schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum
    theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
    tuple_union_agg_integer var_pop var_samp variance vector_avg vector_sum
"""
AGGREGATES = frozenset(_AGGREGATES.split())

_WINDOW_FUNCTIONS = "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number"
WINDOW_FUNCTIONS = frozenset(_WINDOW_FUNCTIONS.split())

_RANDOM = "gives another value each time, so a recompute would differ from the stream; use the event's own fields"
_CLOCK = "is the time of the computation, so a recompute would differ from the stream; use a time of the event"
_SESSION = "depends on the session of Spark, so a recompute could differ from the stream; write the value itself"
_FILE = "depends on Spark's files, so a recompute would differ from the stream; use record.partition and record.offset"
_JAVA = "calls Java, which may give another value each time; use functions of Spark SQL"
_RAISES = "raises an error on purpose, which makes its expression null; use if(…), or an expectation of the source"
_SALTED = "begins with random bytes, so a recompute would differ from the stream; use sha2, or encrypt before sending"
_DESCRIPTOR = "reads a file of the machine, which may change or be missing; send JSON"
_ROWS = "makes several rows of an event; use the source's explode, or a function of arrays, such as transform"
_TIME_WINDOW = "may put an event into several rows; use the metric's window, or date_trunc"
_TABLE = "is a table, allowed is an expression over one event; use the event's own fields"

_REFUSED = {
    _RANDOM: "rand randn random randstr shuffle uniform uuid monotonically_increasing_id spark_partition_id",
    _CLOCK: "curdate current_date current_time current_timestamp localtimestamp now",
    _SESSION: "current_catalog current_database current_path current_schema current_timezone current_user session_user "
    "user version",
    _FILE: "input_file_block_length input_file_block_start input_file_name",
    _JAVA: "java_method reflect try_reflect",
    _RAISES: "assert_true raise_error",
    _SALTED: "aes_encrypt",
    _DESCRIPTOR: "from_protobuf to_protobuf",
    _ROWS: "explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack variant_explode "
    "variant_explode_outer",
    _TIME_WINDOW: "session_window window window_time",
    _TABLE: "collations python_worker_logs range sql_keywords table_changes table_changes_by_path",
}

REFUSED = {name: reason for reason, names in _REFUSED.items() for name in names.split()}
"""By function, why an expression over one event cannot have it, and what to use instead."""

CLOCK_WITHOUT_ARGUMENTS = {"unix_timestamp": _CLOCK}
"""As REFUSED, of functions that are refused only without arguments."""

_WITHOUT_BRACKETS = "current_date current_time current_timestamp current_user session_user user"
WITHOUT_BRACKETS = frozenset(_WITHOUT_BRACKETS.split())
"""The functions that Spark also takes a plain name for, unless a column has it."""
