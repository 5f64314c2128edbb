/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of NCCL's RAS, put together by hand as its format strings would
 * (src/ras/client_support.cc of NCCL: 2.24.3 and 2.25; 2.26.2 to 2.28.3; the JSON of 2.28.7, in
 * which a comma is missing, and of 2.29.2 on). The same strings are in libnccl.so.2 of 2.24.3,
 * 2.27.5, 2.29.2 and 2.32.3.
 */
#ifndef VT_TESTS_RAS_WORDS_H
#define VT_TESTS_RAS_WORDS_H

#define RAS_HEAD(version)                                                             \
	"NCCL version " version " compiled with CUDA 12.4\n"                          \
	"CUDA runtime version 12040, driver version 12080\n\n"                        \
	"Job summary\n"                                                               \
	"===========\n\n"                                                             \
	"  Nodes  Processes         GPUs  Processes     GPUs\n"                       \
	"(total)   per node  per process    (total)  (total)\n"                       \
	"      1          8            1          8        8\n"                       \
	"\nCommunicators... (0.00s)\n"                                                \
	"=============\n\n"                                                           \
	"Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n" \
	"    #  in group  per comm  per node  per comm  in group\n"

static const char ras_well[] = RAS_HEAD(
	"2.24.3") "    0         1         1         8         8         8   RUNNING      OK\n"
		  "    1         4         1         2         2         8   RUNNING      OK\n"
		  "\nErrors\n======\n\nWarnings\n========\n\n";

static const char ras_2_24[] = RAS_HEAD(
	"2.24.3") "    0         1         1       4-5         8         5   RUNNING  INCOMPLETE,MISMATCH\n"
		  "    1         1         1         2         2         2   RUNNING  MISMATCH\n"
		  "\nErrors\n======\n\n"
		  "INCOMPLETE\n"
		  "  Missing communicator data from 1 job process\n"
		  "  Process 4716 on node 10.0.0.1 managing GPU 6\n\n"
		  "DEAD\n"
		  "  2 job processes are considered dead (unreachable via the RAS network)\n"
		  "  Process 4711 on node 10.0.0.1 managing GPU 1\n"
		  "  Process 4715 on node 10.0.0.2 managing GPUs 4,5 (NVML 6,7)\n\n"
		  "#0-0 (00fe5c0d1a2b3c4d) INCOMPLETE\n"
		  "  Missing communicator data from 3 ranks\n"
		  "  The missing ranks: 1,5,6\n\n"
		  "Warnings\n========\n\n"
		  "TIMEOUT\n"
		  "  Encountered 1 communication timeout while gathering communicator data\n\n"
		  "#0-0 (00fe5c0d1a2b3c4d) MISMATCH\n"
		  "  Communicator ranks have different collective operation counts\n"
		  "  4 ranks have launched up to operation 42\n"
		  "  Rank 3 has launched up to operation 41 -- GPU 3 (NVML 7) managed by process 4713 on node 10.0.0.1\n\n"
		  "#1-0 (1111111111111111) MISMATCH\n"
		  "  Communicator ranks have different status\n"
		  "  Rank 0 has status RUNNING -- GPU 0 managed by process 4710 on node 10.0.0.1\n"
		  "  Rank 1 has status UNKNOWN\n\n";

static const char ras_2_27[] = RAS_HEAD(
	"2.27.5") "    0         1         1         8         8         8     ABORT  ERROR,MISMATCH\n"
		  "\nErrors\n======\n\n"
		  "#0-0 (fe5c0d1a2b3c4d5e) ERROR\n"
		  "  Initialization error on 1 rank\n"
		  "  Rank 2 reported Invalid usage -- [process information not found]\n"
		  "  Asynchronous errors on 3 ranks\n"
		  "  2 ranks reported Remote process error\n"
		  "  Rank 4 -- GPU 4 managed by process 4714 on node 10.0.0.1\n"
		  "  Rank 5 -- [process information not found]\n"
		  "  Rank 6 reported System error -- GPU 6 managed by process 4716 on node fe80::1\n\n"
		  "Warnings\n========\n\n"
		  "#0-0 (fe5c0d1a2b3c4d5e) MISMATCH\n"
		  "  Communicator ranks have different status\n"
		  "  7 ranks have status RUNNING\n"
		  "  Rank 6 has status ABORT -- GPU 6 managed by process 4716 on node fe80::1\n"
		  "  Communicator ranks have different Broadcast operation counts\n"
		  "  6 ranks have not launched any operations\n"
		  "  2 ranks have launched up to operation 1\n"
		  "  Rank 0 -- GPU 0 managed by process 4710 on node 10.0.0.1\n"
		  "  Rank 1 -- GPU 1 managed by process 4711 on node 10.0.0.1\n\n"
		  "  Communicator ranks have different AllReduce operation counts\n"
		  "  7 ranks have launched up to operation 6\n"
		  "  Rank 3 has not launched any operations -- GPU 3 managed by process 4713 on node 10.0.0.1\n\n";

/* There is no empty line after words about status alone. */
static const char ras_status[] = RAS_HEAD(
	"2.29.7") "    0         2         1         2         2         4    NOCOMM  MISMATCH\n"
		  "\nErrors\n======\n\nWarnings\n========\n\n"
		  "#0-0 (0000000000000001) MISMATCH\n"
		  "  Communicator ranks have different status\n"
		  "  Rank 1 has status RUNNING -- GPU 1 managed by process 4711 on node 10.0.0.1\n"
		  "  Rank 0 has status NOCOMM -- GPU 0 managed by process 4710 on node 10.0.0.1\n"
		  "#0-1 (0000000000000002) MISMATCH\n"
		  "  Communicator ranks have different status\n"
		  "  Rank 1 has status RUNNING -- GPU 3 managed by process 4713 on node 10.0.0.1\n"
		  "  Rank 0 has status NOCOMM -- GPU 2 managed by process 4712 on node 10.0.0.1\n";

#define RAS_RANK(rank, pid, init, async, aborted, count) \
	"        {\n"                                    \
	"          \"rank\": " #rank ",\n"               \
	"          \"host\": \"10.0.0.1\",\n"            \
	"          \"pid\": " #pid ",\n"                 \
	"          \"cuda_dev\": " #rank ",\n"           \
	"          \"nvml_dev\": " #rank ",\n"           \
	"          \"status\": {\n"                      \
	"            \"init_state\": " #init ",\n"       \
	"            \"async_error\": " #async ",\n"     \
	"            \"finalize_called\": false,\n"      \
	"            \"destroy_flag\": false,\n"         \
	"            \"abort_flag\": " #aborted "\n"     \
	"          },\n"                                 \
	"          \"collective_counts\": {\n"           \
	"            \"Broadcast\": 1,\n"                \
	"            \"Reduce\": 0,\n"                   \
	"            \"AllGather\": 0,\n"                \
	"            \"ReduceScatter\": 0,\n"            \
	"            \"AllReduce\": " #count "\n"        \
	"          }\n"                                  \
	"        }"

/* comma: after nvml_dev, which 2.28.7 and 2.28.9 leave out. */
#define RAS_MISSING(rank, pid, comma, unresponsive, dead)    \
	"        {\n"                                        \
	"          \"rank\": " #rank ",\n"                   \
	"          \"host\": \"10.0.0.2\",\n"                \
	"          \"pid\": " #pid ",\n"                     \
	"          \"cuda_dev\": " #rank ",\n"               \
	"          \"nvml_dev\": " #rank comma "\n"          \
	"          \"status\": {\n"                          \
	"            \"unresponsive\": " #unresponsive ",\n" \
	"            \"considered_dead\": " #dead "\n"       \
	"          }\n"                                      \
	"        }"

#define RAS_JSON(version, comma)                                                                                                                                   \
	"{\n"                                                                                                                                                      \
	"  \"nccl_version\": \"" version "\",\n"                                                                                                                   \
	"  \"cuda_runtime_version\": 12090,\n"                                                                                                                     \
	"  \"cuda_driver_version\": 13000,\n"                                                                                                                      \
	"  \"timestamp\": \"2026-11-22 10:00:00\",\n"                                                                                                              \
	"  \"communicators_count\": 2,\n"                                                                                                                          \
	"  \"communicators\": [\n"                                                                                                                                 \
	"    {\n"                                                                                                                                                  \
	"      \"hash\": \"0xfe5c0d1a2b3c4d5e\",\n"                                                                                                                \
	"      \"secondary_hash\": \"0x1:0x2\",\n"                                                                                                                 \
	"      \"size\": 8,\n"                                                                                                                                     \
	"      \"ranks_count\": 5,\n"                                                                                                                              \
	"      \"missing_ranks_count\": 3,\n"                                                                                                                      \
	"      \"ranks\": [\n" RAS_RANK(0, 4710, 0, 0, false, 42) ",\n" RAS_RANK(1, 4711, 0, 7, false, 42) ",\n" RAS_RANK(2, 4712, 0, 6, true, 42) ",\n" RAS_RANK( \
		3, 4713, 0, 0, false,                                                                                                                              \
		41) ",\n" RAS_RANK(4, 4714, 7, 0, false,                                                                                                           \
				   0) "\n      ],\n"                                                                                                               \
				      "      \"missing_ranks\": [\n" RAS_MISSING(5, 4715, comma, true, true) ",\n" RAS_MISSING(                                    \
					      6, 4716, comma, true,                                                                                                \
					      false) ",\n" RAS_MISSING(7, -1, comma, false,                                                                        \
								       false) "\n      ]\n"                                                                        \
									      "    },\n"                                                                           \
									      "    {\n"                                                                            \
									      "      \"hash\": \"0x2\",\n"                                                         \
									      "      \"secondary_hash\": \"0x1:0x3\",\n"                                           \
									      "      \"size\": 2,\n"                                                               \
									      "      \"ranks_count\": 2,\n"                                                        \
									      "      \"missing_ranks_count\": 0,\n"                                                \
									      "      \"ranks\": [\n" RAS_RANK(                                                     \
										      0, 4710, 0,                                                                  \
										      0, false,                                                                    \
										      7) ",\n" RAS_RANK(1,                                                         \
													4711,                                                      \
													0,                                                         \
													0,                                                         \
													false,                                                     \
													7) "\n      ],\n"                                          \
													   "      \"missing_ranks\": [\n"                          \
													   "\n      ]\n"                                           \
													   "    }\n  ],\n"                                         \
													   "  \"ras\": {\n"                                        \
													   "    \"collection_time_sec\": 0.001,\n"                 \
													   "    \"timeouts_count\": 0\n"                           \
													   "  }\n"                                                 \
													   "}\n"

static const char ras_2_28[] = RAS_JSON("2.28.7", "");
static const char ras_2_29[] = RAS_JSON("2.29.2", ",");

#endif
