// Package shellword quotes names in the commands that messages suggest. An operator can paste them into a shell.
package shellword

import "strings"

// Quote returns s as one word of a POSIX shell: as it is if no shell reads more into it, otherwise in single quotes.
// (POSIX.1-2024, Shell Command Language, 2.2.2)
func Quote(s string) string {
	if s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./_-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
