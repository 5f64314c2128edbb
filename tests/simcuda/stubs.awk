# SPDX-License-Identifier: Apache-2.0
# A list of function names becomes C source: each is traced, can be faulted, and is "not supported", or what answer says.
BEGIN { print "int sim_enter(const char *function);" }
/^[A-Za-z_]/ {
	printf "int %s(void);\nint %s(void)\n{\n\tint err = sim_enter(__func__);\n\n", $1, $1
	printf "\treturn err ? err : %d;\n}\n", answer == "" ? 801 : answer
}
