# SPDX-License-Identifier: Apache-2.0
# Completion for three shells, where each looks by itself below the prefix.
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
fishcompletiondir = $(datadir)/fish/vendor_completions.d
bashcompletion_DATA = src/cmd/completion/vramtap
dist_zshcompletion_DATA = src/cmd/completion/_vramtap
dist_fishcompletion_DATA = src/cmd/completion/vramtap.fish
# bash looks for a file with the command's name.
src/cmd/completion/vramtap: $(top_srcdir)/src/cmd/completion/vramtap.bash
	@$(MKDIR_P) src/cmd/completion
	$(AM_V_GEN)cp $(top_srcdir)/src/cmd/completion/vramtap.bash $@
CLEANFILES += src/cmd/completion/vramtap
EXTRA_DIST += src/cmd/completion/vramtap.bash
