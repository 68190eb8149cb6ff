package caddymodule

import "github.com/spf13/cobra"

// AddCommands makes the commands reachable for tests, under a root of their own.
func AddCommands(root *cobra.Command) { addCommands(root) }

// OpenStores counts the stores that are open in this process, and the configurations that use them.
func OpenStores() (open, users int) {
	stores.Range(func(key, _ any) bool {
		open++
		n, _ := stores.References(key)
		users += n
		return true
	})
	return open, users
}
