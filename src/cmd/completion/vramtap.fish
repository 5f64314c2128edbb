# SPDX-License-Identifier: Apache-2.0
# fish completion of vramtap. Commands and options are those that the program's own --help lists.

function __vramtap_commands
    vramtap --help 2>/dev/null | string match --regex --groups-only '^  ([a-z][a-z-]*) +(.*)' | while read -l name
        read -l what
        printf '%s\t%s\n' $name $what
    end
end

function __vramtap_command
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    test (count $words) -gt 1; and echo $words[2]
end

function __vramtap_lacks_command
    test (count (commandline --tokenize --cut-at-cursor --current-process)) -le 1
end

# The command's options and, behind "--name=", their values where there are few.
function __vramtap_options
    vramtap (__vramtap_command) --help 2>/dev/null | string match --regex --groups-only '^  (?:-[A-Za-z?], |    )(--[a-z][a-z-]*(?:=[A-Z]+)?)' | while read -l option
        set -l name (string split --fields 1 -- = $option)
        switch $option
            case '--color=*'
                printf '%s\n' $name=auto $name=always $name=never
            case '--threads=*'
                printf '%s\n' $name=groups $name=all $name=python $name=main
            case '--by=*'
                printf '%s\n' $name=category $name=module $name=variable $name=type
            case '*=PID'
                __fish_complete_pids | string replace --regex -- '^' $name=
            case '*=FILE' '*=CORE' '*=PATH' '*=DIR'
                set -l typed (commandline --current-token)
                if string match --quiet -- "$name=*" $typed
                    __fish_complete_path (string replace -- "$name=" '' $typed) | string replace --regex -- '^' $name=
                else
                    echo $name=
                end
            case '*=*'
                echo $name=
            case '*'
                echo $name
        end
    end
end

function __vramtap_arguments
    switch (__vramtap_command)
        case help
            __vramtap_commands
        case diff html
            __fish_complete_path (commandline --current-token)
        case run
            __fish_complete_subcommand --fcs-skip=2
        case gdb-script
            printf '%s\n' gdb cuda-gdb
        case record
            printf '%s\n' on status off
            __fish_complete_pids
        case '*'
            __fish_complete_pids
    end
end

complete --command vramtap --no-files
complete --command vramtap --condition __vramtap_lacks_command --arguments '(__vramtap_commands)'
complete --command vramtap --condition 'not __vramtap_lacks_command' --arguments '(__vramtap_arguments)'
complete --command vramtap --condition 'not __vramtap_lacks_command; and string match --quiet -- "-*" (commandline --current-token)' --arguments '(__vramtap_options)'
