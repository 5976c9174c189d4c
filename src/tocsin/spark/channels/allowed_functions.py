"""Which of Spark's functions a query may call, and why not the others. Data only.

Every function of the Spark we ship with is in one of these lists (a test compares them with
`SHOW FUNCTIONS`), so that somebody decides about each that a new Spark brings. A function in none
of them is refused like one that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping

_THEMES = {
    "operators": """
        ! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ | || ~ and between case div in is not or
        when like ilike rlike regexp any all some exists if
    """,
    "conditions": """
        coalesce decode equal_null greatest ifnull isnan isnotnull isnull least nanvl nullif
        nullifzero nvl nvl2 zeroifnull width_bucket
    """,
    "types": """
        bigint binary boolean cast date decimal double float int smallint string time timestamp
        tinyint try_cast typeof
    """,
    "numbers": """
        abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot
        csc degrees e exp expm1 factorial floor hex hypot ln log log10 log1p log2 mod negative pi
        pmod positive pow power radians rint round sec sign signum sin sinh sqrt tan tanh try_add
        try_divide try_mod try_multiply try_subtract unhex
    """,
    "bits": """
        bit_count bit_get getbit shiftleft shiftright shiftrightunsigned bitmap_bit_position
        bitmap_bucket_number bitmap_count
    """,
    "texts": """
        ascii base64 bit_length btrim char char_length character_length chr collate collation concat
        concat_ws contains elt encode endswith find_in_set format_number format_string initcap instr
        is_valid_utf8 lcase left len length levenshtein locate lower lpad ltrim luhn_check
        make_valid_utf8 mask octet_length overlay position printf quote regexp_count regexp_extract
        regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace
        reverse right rpad rtrim sentences soundex space split split_part startswith substr
        substring substring_index to_binary to_char to_number to_varchar translate trim
        try_to_binary try_to_number try_validate_utf8 ucase unbase64 upper validate_utf8
    """,
    "addresses": "parse_url try_parse_url try_url_decode url_decode url_encode",
    "hashes": "aes_decrypt crc32 hash md5 sha sha1 sha2 try_aes_decrypt xxhash64",
    "dates and times": """
        add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part
        date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear
        extract from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval
        make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz
        make_ym_interval minute month monthname months_between next_day quarter second
        session_window time_bucket time_diff time_from_micros time_from_millis time_from_seconds
        time_to_micros time_to_millis time_to_seconds time_trunc timestamp_micros timestamp_millis
        timestamp_seconds timestampadd timestampdiff to_date to_time to_timestamp to_timestamp_ltz
        to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_interval
        try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time
        try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday
        weekofyear window window_time year
    """,
    "arrays, maps and structs": """
        aggregate array array_append array_compact array_contains array_distinct array_except
        array_insert array_intersect array_join array_max array_min array_position array_prepend
        array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip
        cardinality element_at filter flatten forall get map map_concat map_contains_key map_entries
        map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with named_struct
        reduce sequence size slice sort_array str_to_map struct transform transform_keys
        transform_values try_element_at zip_with
    """,
    "JSON, CSV and variants": """
        from_csv from_json get_json_object is_valid_variant is_variant_null json_array_length
        json_object_keys parse_json schema_of_csv schema_of_json schema_of_variant to_csv to_json
        to_variant_object try_parse_json try_variant_get variant_get
    """,
    "rows out of values": """
        explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range stack
        variant_explode variant_explode_outer
    """,
    "aggregates": """
        any_value approx_count_distinct approx_percentile approx_top_k array_agg avg bit_and bit_or
        bit_xor bool_and bool_or collect_list collect_set corr count count_if covar_pop covar_samp
        cube every first first_value grouping grouping_id histogram_numeric kurtosis last last_value
        listagg max max_by mean median min min_by mode percentile percentile_approx percentile_cont
        percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
        regr_sxy regr_syy rollup schema_of_variant_agg skewness std stddev stddev_pop stddev_samp
        string_agg sum try_avg try_sum var_pop var_samp variance
    """,
    "window functions": """
        cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    """,
    "sketches": """
        approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate bitmap_and_agg
        bitmap_construct_agg bitmap_or_agg count_min_sketch hll_sketch_agg hll_sketch_estimate
        hll_union hll_union_agg theta_difference theta_intersection theta_intersection_agg
        theta_sketch_agg theta_sketch_estimate theta_union theta_union_agg tuple_difference_double
        tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
        tuple_intersection_agg_double tuple_intersection_agg_integer tuple_intersection_double
        tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
        tuple_sketch_agg_double tuple_sketch_agg_integer tuple_sketch_estimate_double
        tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer
        tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_agg_double
        tuple_union_agg_integer tuple_union_double tuple_union_integer tuple_union_theta_double
        tuple_union_theta_integer
    """,
    "vectors": """
        vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
        vector_normalize vector_sum
    """,
    "geometries": "st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid",
}
THEMES: Mapping[str, tuple[str, ...]] = {
    theme: tuple(names.split()) for theme, names in _THEMES.items()
}
"""What everybody may call, by theme."""

SYNTAX = frozenset(("all", "cube", "is", "rollup", "timestampadd", "timestampdiff", "try_cast"))
"""Those of them that Spark's grammar knows, and not its list of functions."""

CLOCK = frozenset(
    ("curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "now")
)
"""In ad hoc queries only: a channel's run must be repeatable. `unix_timestamp()` without arguments
is one of them."""

TABLE_FUNCTIONS = frozenset(THEMES["rows out of values"])
"""Those that may stand in FROM."""

_JAVA = "it would call Java"
_FILES = "it can open files"
_SESSION = "it tells of the machinery, not of records"
_RANDOM = "it gives another answer each time, so a run could not be repeated"
_FAILS = "it would end the run, and with it everybody else's results"

_REFUSED = {
    _JAVA: "reflect java_method try_reflect",
    _FILES: """
        from_avro to_avro schema_of_avro from_protobuf to_protobuf from_xml schema_of_xml to_xml
        xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short
        xpath_string
    """,
    _SESSION: """
        collations current_catalog current_database current_path current_schema current_timezone
        current_user input_file_block_length input_file_block_start input_file_name measure
        python_worker_logs session_user sql_keywords user version
    """,
    _RANDOM: """
        aes_encrypt kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
        kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kll_sketch_get_n_bigint
        kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
        kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
        kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
        kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
        kll_sketch_to_string_double kll_sketch_to_string_float monotonically_increasing_id rand
        randn random randstr shuffle spark_partition_id uniform uuid
    """,
    _FAILS: "assert_true raise_error",
}
REFUSED: Mapping[str, str] = {
    name: reason for reason, names in _REFUSED.items() for name in names.split()
}
"""The rest of Spark's functions, and why."""

ALLOWED = frozenset(name for names in THEMES.values() for name in names)
