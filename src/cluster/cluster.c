/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* After that a shell that was told to end is killed: it waits two seconds for what it runs. */
#define END_MS 10000
#define WORDS_MAX 64

extern const char vt_cluster_common[], vt_cluster_node[], vt_cluster_slurm[], vt_cluster_kubectl[],
	vt_cluster_mpirun[], vt_cluster_clush[];

static const struct {
	const char *name, *text;
} engines[] = {
	{ "slurm", vt_cluster_slurm },
	{ "kubectl", vt_cluster_kubectl },
	{ "mpirun", vt_cluster_mpirun },
	{ "clush", vt_cluster_clush },
};

/* ---- the program of the shell ---- */

static const char *text_of(const char *engine)
{
	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if (!strcmp(engines[i].name, engine))
			return engines[i].text;
	return "";
}

/* As one word. */
static void write_quoted(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", out);
		else
			fputc(*text, out);
	fputs("'\n", out);
}

/* A file that has no name and does not change. *fd stays open over exec. */
static struct vt_error *write_script(const char *engine, int *fd)
{
	VT_CLOSE int made = memfd_create("vramtap-cluster", MFD_ALLOW_SEALING);
	int copy = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, 3);
	FILE *out = copy < 0 ? NULL : fdopen(copy, "w");

	if (!out) {
		if (copy >= 0)
			close(copy);
		return vt_error_create_os(errno, "cannot make a file for the shell's program");
	}
	fputs(vt_cluster_common, out);
	fputs("node_program=", out);
	write_quoted(out, vt_cluster_node);
	fputs(text_of(engine), out);
	fputs("main \"$@\"\n", out);
	if (fclose(out) ||
	    fcntl(made, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
		return vt_error_create_os(errno, "cannot write the shell's program");
	*fd = made;
	made = -1;
	return NULL;
}

struct words {
	const char *list[WORDS_MAX];
	size_t n;
	char script[32], seconds[24], margin[24], at_once[24], self[PATH_MAX];
};

static void add(struct words *words, const char *word)
{
	if (words->n < WORDS_MAX - 1)
		words->list[words->n++] = word;
}

static void add_option(struct words *words, const char *letter, const char *value)
{
	if (value) {
		add(words, letter);
		add(words, value);
	}
}

static const char *seconds_of(char *text, size_t size, uint64_t ns)
{
	snprintf(text, size, "%" PRIu64, ns / VT_NS_PER_S);
	return text;
}

static void make_words(const struct vt_cluster_options *options, int script, struct words *words)
{
	ssize_t n = readlink("/proc/self/exe", words->self, sizeof(words->self) - 1);

	words->self[n < 0 ? 0 : n] = '\0';
	snprintf(words->script, sizeof(words->script), "/proc/self/fd/%d", script);
	snprintf(words->at_once, sizeof(words->at_once), "%u", options->at_once);
	add(words, "sh");
	add(words, words->script);
	add_option(words, "-o", options->directory);
	add_option(words, "-w", options->where);
	add_option(words, "-n", options->namespace);
	add_option(words, "-c", options->container);
	add_option(words, "-R", options->worker);
	add_option(words, "-b", options->program);
	add_option(words, "-v", options->version);
	add_option(words, "-a", words->self);
	add_option(words, "-j", words->at_once);
	add_option(words, "-t",
		   seconds_of(words->seconds, sizeof(words->seconds), options->timeout_ns));
	add_option(words, "-m",
		   seconds_of(words->margin, sizeof(words->margin), options->margin_ns));
	add(words, "--");
	for (const char *const *word = options->for_node; *word; word++)
		add(words, *word);
	words->list[words->n] = NULL;
}

/* ---- the shell ---- */

/*
 * In a group of its own: what a terminal sends reaches us only, and we tell it. It ends when we do.
 * What it starts is known by the variable as part of a triage, and not of the job.
 */
_Noreturn static void become_shell(const struct words *words, pid_t parent, int in, int out)
{
	static const int defaults[] = { SIGPIPE, SIGXFSZ, SIGTSTP, SIGTTOU, SIGTTIN,
					SIGINT,  SIGTERM, SIGHUP,  SIGQUIT };
	sigset_t none;

	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		signal(defaults[i], SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() == parent && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
	    !setenv("VRAMTAP_TRIAGE", "1", 1))
		execvp("sh", (char *const *)words->list);
	_exit(127);
}

static struct vt_error *start_shell(struct vt_cluster *cluster, const struct words *words)
{
	pid_t self = getpid();
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC))
		return vt_error_create_os(errno, "cannot make a pipe");
	cluster->hold = in[1];
	VT_CLOSE int shell_in = in[0];

	if (pipe2(out, O_CLOEXEC))
		return vt_error_create_os(errno, "cannot make a pipe");
	VT_CLOSE int shell_out = out[1];

	cluster->out = fdopen(out[0], "r");
	if (!cluster->out) {
		close(out[0]);
		return &vt_enomem;
	}
	cluster->shell = fork();
	if (!cluster->shell)
		become_shell(words, self, shell_in, shell_out);
	return cluster->shell < 0 ? vt_error_create_os(errno, "cannot fork") : NULL;
}

static bool has_ended(pid_t pid, int *status)
{
	return waitpid(pid, status, WNOHANG) == pid;
}

static bool ends_in_time(pid_t pid)
{
	const struct timespec tick = { .tv_nsec = 10 * 1000 * 1000 };
	int status;

	for (int ms = 0; ms < END_MS; ms += 10) {
		if (has_ended(pid, &status))
			return true;
		nanosleep(&tick, NULL);
	}
	return false;
}

void vt_cluster_interrupt(const struct vt_cluster *cluster)
{
	int saved = errno;

	if (cluster->shell > 0) {
		kill(cluster->shell, SIGTERM);
		if (!ends_in_time(cluster->shell))
			kill(-cluster->shell, SIGKILL);
	}
	errno = saved;
}

/* ---- what it says ---- */

static struct vt_error *add_node(struct vt_cluster *cluster, char *directory, char *why)
{
	struct vt_cluster_node *node = directory || why ? vt_vec_append(&cluster->nodes) : NULL;

	if (!node) {
		free(directory);
		free(why);
		return &vt_enomem;
	}
	*node = (struct vt_cluster_node){ directory, why };
	return NULL;
}

/* "missing NODE WHY" */
static char *why_missing(char *text)
{
	char *why = strchr(text, ' '), *said;

	if (why)
		*why++ = '\0';
	return asprintf(&said, "%s: %s", text, why ? why : "no answer") < 0 ? NULL : said;
}

static struct vt_error *take_line(struct vt_cluster *cluster, char *line, char **directory,
				  bool *done)
{
	char *text = strchr(line, ' ');
	char *said;

	if (text)
		*text++ = '\0';
	else
		text = line + strlen(line);
	if (!strcmp(line, "done"))
		*done = true;
	else if (!strcmp(line, "fail"))
		return vt_error_create(VT_ERR_NOTFOUND, "%s", text);
	else if (!strcmp(line, "directory") && !*directory)
		return (*directory = strdup(text)) ? NULL : &vt_enomem;
	else if (!strcmp(line, "node") && *directory)
		return add_node(cluster,
				asprintf(&said, "%s/%s", *directory, text) < 0 ? NULL : said, NULL);
	else if (!strcmp(line, "missing"))
		return add_node(cluster, NULL, why_missing(text));
	else if (!strcmp(line, "refused"))
		return add_node(cluster, NULL,
				asprintf(&said, "\"%s\" is no name of a node", text) < 0 ? NULL :
											   said);
	return NULL;
}

static struct vt_error *read_lines(struct vt_cluster *cluster)
{
	VT_FREE char *line = NULL, *directory = NULL;
	size_t size = 0;
	ssize_t n;
	bool done = false;
	int status = 0;

	while (!done && (n = getline(&line, &size, cluster->out)) > 0) {
		line[n - (line[n - 1] == '\n')] = '\0';
		VT_TRY(take_line(cluster, line, &directory, &done));
	}
	if (done)
		return NULL;
	while (waitpid(cluster->shell, &status, 0) < 0 && errno == EINTR)
		;
	cluster->shell = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return vt_error_create(VT_ERR_NOTFOUND,
				       "there is no sh here, which is needed to reach other nodes");
	return vt_error_create(VT_ERR_NOTFOUND, "the shell that asks the nodes ended: %s",
			       WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "it failed");
}

struct vt_error *vt_cluster_collect(struct vt_cluster *cluster,
				    const struct vt_cluster_options *options)
{
	VT_CLOSE int script = -1;
	struct words words = { .n = 0 };

	*cluster = (struct vt_cluster){ .hold = -1 };
	VT_TRY(write_script(options->engine, &script));
	make_words(options, script, &words);
	VT_TRY(start_shell(cluster, &words));
	return read_lines(cluster);
}

void vt_cluster_deinit(struct vt_cluster *cluster)
{
	if (cluster->hold >= 0)
		close(cluster->hold);
	if (cluster->out)
		fclose(cluster->out);
	if (cluster->shell > 0 && !ends_in_time(cluster->shell))
		vt_cluster_interrupt(cluster);
	for (size_t i = 0; i < cluster->nodes.n; i++) {
		free(cluster->nodes.data[i].directory);
		free(cluster->nodes.data[i].why);
	}
	vt_vec_deinit(&cluster->nodes);
}
