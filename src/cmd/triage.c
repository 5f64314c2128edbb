/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramtap triage: all processes of a job at once, what each does and holds, and which ones differ;
 * or saved jobs together.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/cluster.h"
#include "cmd/cmd.h"
#include "cmd/documents.h"
#include "cmd/options_nodes.h"
#include "cmd/output.h"
#include "base/progress.h"
#include "triage/collect.h"
#include "triage/dir.h"
#include "job/html/html.h"
#include "job/profile/stacks.h"
#include "job/json/json.h"
#include "job/prometheus/prometheus.h"
#include "job/rules/rules.h"
#include "job/text/text.h"
#include "report/html/html.h"

#define DEFAULT_TIMEOUT_S 60
#define MAX_FOR_NODE 16 /* words: what say_to_node() has, and NULL */
/*
 * For getting inside a process, and for each answer from there: the others wait for it at the
 * start, and not much longer.
 */
#define INJECT_NS (1 * VT_NS_PER_S)
/* For blocks that change while they are read (vramtap report has it as --timeout). */
#define SETTLE_NS (5 * VT_NS_PER_S)

enum {
	KEY_ALL_GPU = VT_KEY_COMMAND,
	KEY_JOB,
	KEY_CGROUP,
	KEY_MATCH,
	KEY_CHILDREN_OF,
	KEY_FROM,
	KEY_WITH_CORE,
	KEY_EXE,
	KEY_SYSROOT,
	KEY_INJECT,
	KEY_READ_ONLY,
	KEY_NO_STOP,
	KEY_RAS,
	KEY_OWNERS,
	KEY_KERNELS,
	KEY_TIMEOUT,
	KEY_DOCUMENT, /* and one for each of the documents */
};

enum { HTML, SPEEDSCOPE, FOLDED, N_DOCUMENTS };

static const struct vt_document kinds[N_DOCUMENTS] = {
	[HTML] = { "--html", vt_write_job_html, NULL, false },
	[SPEEDSCOPE] = { "--speedscope", vt_write_job_speedscope, NULL, false },
	[FOLDED] = { "--folded", vt_write_job_folded, NULL, false },
};

struct words {
	VT_VEC(const char *) list;
};

struct arguments {
	struct vt_triage_choice choice;
	struct words words; /* pids, or directories after --from */
	struct words from, cores;
	struct vt_triage_options triage;
	struct vt_cluster_options nodes; /* no engine: this machine only */
	struct vt_output output;
	const char *files[N_DOCUMENTS];
	const char *for_node[MAX_FOR_NODE];
	char kernels_for_node[32]; /* "--kernels=30" */
	mode_t umask;              /* the user's */
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "Which processes (their launchers and descendants are included):", 1 },
	{ "all-gpu", KEY_ALL_GPU, NULL, 0,
	  "All that use a GPU, and all that their launchers started", 0 },
	{ "job", KEY_JOB, "NUMBER", 0, "Those of this Slurm job on this machine", 0 },
	{ "cgroup", KEY_CGROUP, "PATH", 0, "Those in this control group or below it", 0 },
	{ "match", KEY_MATCH, "REGEX", 0,
	  "Those whose command line matches this extended regular expression", 0 },
	{ "children-of", KEY_CHILDREN_OF, "PID", 0, "This process and its descendants", 0 },
	{ "with-core", KEY_WITH_CORE, "CORE", 0, "Include this core of a process; may be repeated",
	  0 },
	{ "exe", KEY_EXE, "FILE", 0, "The executable of the cores, if it is not where they say",
	  0 },
	{ "sysroot", KEY_SYSROOT, "DIR", 0,
	  "The files of the machine that made the cores, as for vramtap report", 0 },
	{ "from", KEY_FROM, "DIR", 0, "Read no processes; combine the results saved in each DIR",
	  0 },
	{ NULL, 0, NULL, 0, "Where the results go:", 3 },
	{ "output", 'o', "DIR", 0,
	  "Also write report.json, summary.txt and a report of each process to DIR (created if missing; "
	  "otherwise empty or from an earlier triage)",
	  0 },
	{ "html", KEY_DOCUMENT + HTML, "FILE", 0,
	  "Write a page with pictures of the job to FILE, which needs nothing but a browser; - is "
	  "standard output, instead of the text",
	  0 },
	{ NULL, 0, NULL, 0, "How to treat the processes:", 4 },
	{ "read-only", KEY_READ_ONLY, NULL, 0, "Run no code in the processes (default)", 0 },
	{ "inject", KEY_INJECT, NULL, 0,
	  "Run vramtap's helper in the ranks, as vramtap report does; implies --ras", 0 },
	{ "ras", KEY_RAS, NULL, 0,
	  "Ask NCCL's RAS about the job's communicators, through a socket of a rank", 0 },
	{ "no-stop", KEY_NO_STOP, NULL, 0,
	  "Stop no thread: read sleeping threads as they are; running ones have no native stack",
	  0 },
	{ "owners", KEY_OWNERS, NULL, 0,
	  "Look for what keeps the ranks' memory alive, and compare how much of it is parameters, "
	  "activations and so on; takes some tenths of a second for each rank, after the stop",
	  0 },
	{ "kernels", KEY_KERNELS, "TIME", OPTION_ARG_OPTIONAL,
	  "Have the installed CUDA debugger (cuda-gdb) tell which kernels run on the GPU of each rank; "
	  "when all is read, this stops all ranks at the same time, each for 0.3 to 3 s; TIME: how long "
	  "to wait for it (default 30s)",
	  0 },
	{ "timeout", KEY_TIMEOUT, "TIME", 0,
	  "The limit for all processes together; unfinished ones are left out (default 60s)", 0 },
	{ "speedscope", KEY_DOCUMENT + SPEEDSCOPE, "FILE", 0,
	  "Write the stacks of the job to FILE for speedscope, with the number of threads in each, "
	  "what they do and whose they are",
	  VT_OUTPUT_GROUP },
	{ "folded", KEY_DOCUMENT + FOLDED, "FILE", 0,
	  "Write the same to FILE in the format of flame graph tools", 0 },
	{ 0 },
};

static struct vt_documents documents_of(const struct arguments *args)
{
	return (struct vt_documents){ .kinds = kinds, .files = args->files, .n = N_DOCUMENTS };
}

/* ---- the command line ---- */

static void add_word(struct argp_state *state, struct words *words, const char *word)
{
	const char **added = vt_vec_append(&words->list);

	if (added)
		*added = word;
	else
		argp_failure(state, VT_EXIT_NOTHING, 0, "out of memory");
}

static void parse_slurm(struct argp_state *state, const char *text)
{
	if (!*text || text[strspn(text, "0123456789")])
		argp_error(state, "--job takes the number of a job of Slurm, not \"%s\"", text);
}

static bool is_anything_chosen(const struct vt_triage_choice *choice)
{
	return choice->pids.n || choice->all_gpu || choice->slurm || choice->cgroup ||
	       choice->match || choice->children_of;
}

static void add_pids(struct argp_state *state, struct arguments *args)
{
	for (size_t i = 0; i < args->words.list.n; i++) {
		pid_t *pid = vt_vec_append(&args->choice.pids);

		if (!pid)
			argp_failure(state, VT_EXIT_NOTHING, 0, "out of memory");
		else
			*pid = vt_parse_pid(state, args->words.list.data[i]);
	}
}

/* What is read must not be replaced: it may be all there is of a job. */
static void refuse_inputs(const struct argp_state *state, const struct arguments *args,
			  const struct vt_documents *documents)
{
	for (size_t i = 0; i < args->cores.list.n; i++)
		vt_documents_refuse_input(state, documents, &args->output,
					  args->cores.list.data[i]);
	for (size_t i = 0; i < args->from.list.n; i++) {
		VT_FREE char *report = NULL;

		if (asprintf(&report, "%s/%s", args->from.list.data[i], VT_TRIAGE_REPORT) < 0)
			argp_failure(state, VT_EXIT_NOTHING, 0, "out of memory");
		else
			vt_documents_refuse_input(state, documents, &args->output, report);
	}
}

/* A pid or a core is on one machine. */
static void check_nodes(struct argp_state *state, struct arguments *args)
{
	struct vt_cluster_options *nodes = &args->nodes;

	vt_nodes_check(state, nodes);
	if (!nodes->engine)
		return;
	if (args->words.list.n || args->choice.children_of || args->cores.list.n ||
	    args->from.list.n)
		argp_error(state,
			   "--%s excludes PIDs, --children-of, --with-core and --from: --match or "
			   "--all-gpu choose on each node",
			   nodes->engine);
	if (vt_nodes_is_slurm(nodes) && args->choice.slurm)
		argp_error(state, "--slurm and --job exclude each other");
}

static void check_arguments(struct argp_state *state, struct arguments *args)
{
	VT_ERROR struct vt_error *err = vt_triage_check_choice(&args->choice);
	const struct vt_documents documents = documents_of(args);

	vt_documents_refuse_shared(state, &documents, &args->output);
	if (err)
		argp_error(state, "%s", err->message);
	check_nodes(state, args);
	if (!args->cores.list.n && (args->triage.paths.exe || args->triage.paths.sysroot))
		argp_error(state, "--exe and --sysroot go with --with-core");
	if (args->from.list.n) {
		for (size_t i = 0; i < args->words.list.n; i++)
			add_word(state, &args->from, args->words.list.data[i]);
		refuse_inputs(state, args, &documents);
		if (is_anything_chosen(&args->choice) || args->cores.list.n)
			argp_error(state, "--from and processes exclude each other");
		return;
	}
	add_pids(state, args);
	refuse_inputs(state, args, &documents);
	if (!is_anything_chosen(&args->choice) && !args->cores.list.n && !args->nodes.engine)
		argp_error(
			state,
			"which processes? PIDs are missing, or --all-gpu, --job, --cgroup, --match, --children-of, --slurm or --from");
	if (args->output.quiet && !args->triage.directory && !args->output.json &&
	    !args->output.prometheus && !vt_documents_any(&documents))
		argp_error(state,
			   "--quiet leaves no result without -o DIR, or a file for one of --json, "
			   "--prometheus, --html, --speedscope and --folded");
	if (args->triage.inject && args->triage.collect.touch != VT_TOUCH_INSIDE)
		argp_error(state, "--inject and %s exclude each other",
			   vt_touch_option(args->triage.collect.touch));
	if (args->triage.collect.kernels_ns && args->triage.collect.touch == VT_TOUCH_NOTHING)
		argp_error(state, "--kernels and --no-stop exclude each other");
	if (args->triage.collect.kernels_ns && args->output.prometheus)
		argp_error(
			state,
			"--kernels and --prometheus exclude each other: a debugger that stops each "
			"rank is not for what a timer runs, and metrics have no kernels");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->output;
		state->child_inputs[1] = &args->nodes;
		return 0;
	case KEY_ALL_GPU:
		args->choice.all_gpu = true;
		return 0;
	case KEY_JOB:
		parse_slurm(state, arg);
		args->choice.slurm = arg;
		return 0;
	case KEY_CGROUP:
		args->choice.cgroup = arg;
		return 0;
	case KEY_MATCH:
		args->choice.match = arg;
		return 0;
	case KEY_CHILDREN_OF:
		args->choice.children_of = vt_parse_pid(state, arg);
		return 0;
	case KEY_FROM:
		add_word(state, &args->from, arg);
		return 0;
	case KEY_WITH_CORE:
		add_word(state, &args->cores, arg);
		return 0;
	case KEY_EXE:
		args->triage.paths.exe = arg;
		return 0;
	case KEY_SYSROOT:
		args->triage.paths.sysroot = arg;
		return 0;
	case 'o':
		args->triage.directory = arg;
		return 0;
	case KEY_INJECT:
		args->triage.inject = args->triage.ras = true;
		args->triage.collect.budget_ns = INJECT_NS;
		return 0;
	case KEY_READ_ONLY:
		args->triage.collect.touch =
			vt_touch_less(args->triage.collect.touch, VT_TOUCH_STOP);
		return 0;
	case KEY_NO_STOP:
		args->triage.collect.touch = VT_TOUCH_NOTHING;
		return 0;
	case KEY_RAS:
		args->triage.ras = true;
		return 0;
	case KEY_OWNERS:
		args->triage.collect.owners = true;
		return 0;
	case KEY_DOCUMENT + HTML:
		args->files[HTML] = arg;
		args->triage.page = vt_html_write_report;
		return 0;
	case KEY_DOCUMENT + SPEEDSCOPE:
	case KEY_DOCUMENT + FOLDED:
		args->files[key - KEY_DOCUMENT] = arg;
		return 0;
	case KEY_KERNELS:
		args->triage.collect.kernels_ns = vt_parse_kernels(state, arg);
		return 0;
	case KEY_TIMEOUT:
		args->triage.timeout_ns = vt_parse_timeout(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		add_word(state, &args->words, arg);
		return 0;
	case ARGP_KEY_END:
		check_arguments(state, args);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{ &vt_prometheus_argp, 0, NULL, 0 },
	{ &vt_nodes_argp, 0, NULL, 0 },
	{ 0 },
};

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.args_doc =
		"PID...\n--all-gpu|--job=NUMBER|--cgroup=PATH|--match=REGEX|--children-of=PID\n--slurm=JOB|--kubectl=SELECTOR|--mpirun=HOSTS|--clush=NODES\n--from DIR...",
	.doc = "Examine all processes of a job at the same instant, and show which differ, what "
	       "they wait for and which hold the memory of each GPU: on this machine, or on all that a "
	       "job has; or combine results saved on several machines. With --quiet the summary goes to DIR only.\v"
	       "Exit status: 0 everything is known about every process of the job; 1 partial (the "
	       "report says what is missing and why); 2 nothing could be learned; 3 not permitted "
	       "for any process (the message says what would allow it); 64 wrong usage.",
};

/* ---- looking ---- */

/* Those with the most information come first: they get processors first for slow work. */
static int by_importance(const void *a, const void *b)
{
	const struct vt_label *x = &((const struct vt_suspect *)a)->label,
			      *y = &((const struct vt_suspect *)b)->label;

	if (x->in_job != y->in_job)
		return x->in_job ? -1 : 1;
	if (x->role != y->role)
		return x->role < y->role ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static struct vt_error *find_suspects(const struct arguments *args, struct vt_suspects *suspects)
{
	struct vt_processes processes = { 0 };
	struct vt_triage_found found = { 0 };
	struct vt_error *err = is_anything_chosen(&args->choice) ? vt_processes_init(&processes) :
								   NULL;

	if (!err && is_anything_chosen(&args->choice)) {
		err = vt_triage_find(&processes, &args->choice, &found);
		if (!err) {
			vt_triage_drop_gone(&processes, &args->choice, &found);
			err = vt_triage_label(&processes, &found, suspects);
		}
	}
	for (size_t i = 0; !err && i < args->cores.list.n; i++)
		err = vt_triage_add_core(suspects, args->cores.list.data[i]);
	vt_triage_found_deinit(&found);
	vt_processes_deinit(&processes);
	return err;
}

static size_t count_of_job(const struct vt_suspects *suspects)
{
	size_t n = 0;

	for (size_t i = 0; i < suspects->list.n; i++)
		n += suspects->list.data[i].label.in_job;
	return n;
}

/*
 * For a job: complete if all are, nothing if no member has any data. Members outside the job do not
 * count.
 */
static int status_of(const struct vt_suspects *suspects, const int *status)
{
	size_t n = count_of_job(suspects), complete = 0, nothing = 0, not_permitted = 0;

	for (size_t i = 0; i < suspects->list.n; i++) {
		if (!suspects->list.data[i].label.in_job)
			continue;
		complete += status[i] == VT_EXIT_COMPLETE;
		not_permitted += status[i] == VT_EXIT_NOT_PERMITTED;
		nothing += status[i] == VT_EXIT_NOTHING;
	}
	if (complete == n)
		return VT_EXIT_COMPLETE;
	if (not_permitted == n)
		return VT_EXIT_NOT_PERMITTED;
	return nothing + not_permitted == n ? VT_EXIT_NOTHING : VT_EXIT_PARTIAL;
}

static struct vt_error *collect_suspects(struct arguments *args, struct vt_job *job, int *status,
					 int *signo)
{
	struct vt_suspects suspects = { 0 };
	VT_FREE int *each = NULL;
	struct vt_error *err;

	vt_progress("looking for the processes");
	err = find_suspects(args, &suspects);
	if (!err && !count_of_job(&suspects))
		err = vt_triage_none(&args->choice);
	if (!err && args->triage.directory)
		err = vt_triage_dir_prepare(args->triage.directory, true,
					    &args->triage.directory_lock);
	if (!err) {
		qsort(suspects.list.data, suspects.list.n, sizeof(*suspects.list.data),
		      by_importance);
		each = calloc(suspects.list.n, sizeof(*each));
		err = each ? vt_triage_collect(&suspects, &args->triage, job, each, signo) :
			     &vt_enomem;
	}
	if (!err)
		*status = status_of(&suspects, each);
	vt_suspects_deinit(&suspects);
	return err;
}

/* ---- what was saved ---- */

static struct vt_error *load_one(const struct arguments *args, const char *directory,
				 struct vt_job *job)
{
	const char *prefix = vt_triage_dir_prefix(args->triage.directory, directory, &job->arena);
	const char *path = vt_arena_printf(&job->arena, "%s/%s", directory, VT_TRIAGE_REPORT);

	return prefix && path ? vt_job_load(job, path, prefix) : &vt_enomem;
}

/* An unreadable file must not lose the others. */
static bool load_or_miss(const struct arguments *args, const char *directory, struct vt_job *job)
{
	VT_ERROR struct vt_error *err = load_one(args, directory, job);

	if (err) {
		vt_exit_with(err);
		vt_job_miss(job, err->message);
	}
	return !err;
}

static struct vt_error *status_of_loaded(size_t n_loaded, size_t n, int *status)
{
	*status = n_loaded == n ? VT_EXIT_COMPLETE : VT_EXIT_PARTIAL;
	return n_loaded ? NULL : vt_error_create(VT_ERR_NOTFOUND, "nothing could be read");
}

static struct vt_error *prepare_directory(struct arguments *args)
{
	return args->triage.directory ? vt_triage_dir_prepare(args->triage.directory, false,
							      &args->triage.directory_lock) :
					NULL;
}

static struct vt_error *load(struct arguments *args, struct vt_job *job, int *status)
{
	size_t n_loaded = 0;

	VT_TRY(prepare_directory(args));
	vt_progress("reading what was saved");
	for (size_t i = 0; i < args->from.list.n; i++)
		n_loaded += load_or_miss(args, args->from.list.data[i], job);
	return status_of_loaded(n_loaded, args->from.list.n, status);
}

/* ---- many machines ---- */

static struct vt_cluster cluster;

static const char *interrupt_cluster(void)
{
	vt_cluster_interrupt(&cluster);
	return "interrupted; the nodes were told to end";
}

/* What a node's vramtap is told: which processes, and how to treat them. */
static void say_to_node(struct arguments *args)
{
	const struct vt_triage_choice *choice = &args->choice;
	const struct vt_collect_options *collect = &args->triage.collect;
	const struct {
		bool given;
		const char *option, *value;
	} words[] = {
		{ choice->slurm, "--job", choice->slurm },
		{ choice->cgroup, "--cgroup", choice->cgroup },
		{ choice->match, "--match", choice->match },
		{ choice->all_gpu ||
			  (!is_anything_chosen(choice) && !vt_nodes_is_slurm(&args->nodes)),
		  "--all-gpu", NULL },
		{ args->triage.inject, "--inject", NULL },
		{ args->triage.ras, "--ras", NULL },
		{ collect->touch != VT_TOUCH_INSIDE, vt_touch_option(collect->touch), NULL },
		{ collect->owners, "--owners", NULL },
		{ collect->kernels_ns, args->kernels_for_node, NULL },
	};
	size_t n = 0;

	snprintf(args->kernels_for_node, sizeof(args->kernels_for_node), "--kernels=%llu",
		 (unsigned long long)(collect->kernels_ns / VT_NS_PER_S));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!words[i].given)
			continue;
		args->for_node[n++] = words[i].option;
		if (words[i].value)
			args->for_node[n++] = words[i].value;
	}
	args->for_node[n] = NULL;
}

static struct vt_error *load_nodes(struct arguments *args, struct vt_job *job, int *status)
{
	size_t n_loaded = 0;

	for (size_t i = 0; i < cluster.nodes.n; i++) {
		const struct vt_cluster_node *node = &cluster.nodes.data[i];

		if (node->directory) {
			n_loaded += load_or_miss(args, node->directory, job);
		} else {
			VT_ERROR struct vt_error *err =
				vt_error_create(VT_ERR_NOTFOUND, "%s", node->why);

			vt_exit_with(err);
			vt_job_miss(job, err->message);
		}
	}
	return status_of_loaded(n_loaded, cluster.nodes.n, status);
}

static struct vt_error *ask_nodes(struct arguments *args, struct vt_job *job, int *status)
{
	struct vt_error *err = prepare_directory(args);

	if (err)
		return err;
	args->nodes.directory = args->triage.directory;
	args->nodes.timeout_ns = args->triage.timeout_ns;
	args->nodes.for_node = args->for_node;
	say_to_node(args);
	vt_output_on_interrupt(interrupt_cluster);
	vt_progress("waiting for the nodes");
	err = vt_cluster_collect(&cluster, &args->nodes);
	vt_progress_end();
	if (!err)
		err = load_nodes(args, job, status);
	vt_output_on_interrupt(NULL);
	vt_cluster_deinit(&cluster);
	return err;
}

static int worse(int a, int b)
{
	return a > b ? a : b;
}

/* ---- the results ---- */

static struct vt_error *write_directory(const struct arguments *args, struct vt_job *job)
{
	struct vt_output plain = args->output;
	const char *report =
		vt_arena_printf(&job->arena, "%s/" VT_TRIAGE_REPORT, args->triage.directory);
	const char *summary =
		vt_arena_printf(&job->arena, "%s/" VT_TRIAGE_SUMMARY, args->triage.directory);

	if (!report || !summary)
		return &vt_enomem;
	plain.writer = (struct vt_writer_options){ .columns = args->output.writer.columns };
	VT_TRY(vt_output_file(&plain, vt_write_job_json, job, report));
	return vt_output_file(&plain, vt_write_job_text, job, summary);
}

/* What to send to others, after the summary on a terminal. */
static void say_where(const struct arguments *args)
{
	const char *directory = args->triage.directory;

	if (directory) {
		fputs("To send: ", stdout);
		vt_print_escaped(stdout, directory);
		fputs("/" VT_TRIAGE_REPORT "\n", stdout);
	} else if (!args->from.list.n && !args->files[HTML]) {
		fputs("Nothing was saved; -o DIR does that.\n", stdout);
	}
}

/* Another user's program reads them: they have no command lines, and the mode that files have. */
static struct vt_error *write_metrics(const struct arguments *args, const struct vt_job *job)
{
	mode_t before = umask(args->umask);
	struct vt_error *err = vt_output_prometheus(&args->output, vt_write_job_prometheus, job);

	umask(before);
	return err;
}

/* The directory first: a user in a hurry needs it most. A full disk must not lose the text. */
static int write_all(const struct arguments *args, struct vt_job *job, int status)
{
	VT_ERROR struct vt_error *dir_err = args->triage.directory ? write_directory(args, job) :
								     NULL;
	VT_ERROR struct vt_error *json_err = vt_output_json(&args->output, vt_write_job_json, job);
	VT_ERROR struct vt_error *metrics_err = write_metrics(args, job);
	const struct vt_documents documents = documents_of(args);
	VT_ERROR struct vt_error *documents_err =
		vt_documents_write(&documents, &args->output, job);
	bool has_text = !vt_documents_take_output(&documents, &args->output) && !args->output.quiet;
	VT_ERROR struct vt_error *err =
		has_text ? vt_output_text(&args->output, vt_write_job_text, job) : NULL;

	if (dir_err)
		status = worse(status, vt_exit_with(dir_err));
	if (json_err)
		status = worse(status, vt_exit_with(json_err));
	if (metrics_err)
		status = worse(status, vt_exit_with(metrics_err));
	if (documents_err)
		status = worse(status, vt_exit_with(documents_err));
	if (err)
		status = worse(status, vt_exit_with(err));
	if (!dir_err && !err && has_text)
		say_where(args);
	return status;
}

static void deinit(struct arguments *args)
{
	if (args->triage.directory_lock >= 0)
		close(args->triage.directory_lock);
	vt_vec_deinit(&args->words.list);
	vt_vec_deinit(&args->from.list);
	vt_vec_deinit(&args->cores.list);
	vt_vec_deinit(&args->choice.pids);
}

int vt_cmd_triage(int argc, char **argv)
{
	struct arguments args = {
		.triage = { .timeout_ns = DEFAULT_TIMEOUT_S * VT_NS_PER_S,
			    .directory_lock = -1,
			    .collect = { .want = VT_WANT_ALL, .budget_ns = SETTLE_NS } },
	};
	struct vt_job job;
	int status = VT_EXIT_NOTHING, signo = 0;

	vt_parse_command(&argp, argc, argv, 0, &args);
	vt_output_begin(&args.output);
	args.umask = umask(077); /* names and command lines of programs are private */
	vt_job_init(&job);
	job.tool_version = PACKAGE_VERSION;
	job.directory = args.triage.directory;
	clock_gettime(CLOCK_REALTIME, &job.when);

	VT_ERROR struct vt_error *err =
		args.from.list.n  ? load(&args, &job, &status) :
		args.nodes.engine ? ask_nodes(&args, &job, &status) :
				    collect_suspects(&args, &job, &status, &signo);

	vt_progress_end();
	if (err) {
		status = vt_exit_with(err);
	} else {
		vt_job_account(&job);
		if (args.from.list.n || args.nodes.engine)
			status = worse(status, (int)job.completeness);
		status = write_all(&args, &job, status);
	}
	vt_job_deinit(&job);
	deinit(&args);
	return signo ? 128 + signo : status;
}
