// Package suggest adds to the errors of a command line the command or flag that was probably meant.
package suggest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// help is the word before the command whose help is meant, for people who are used to it.
const help = "help"

// Help prints the help of a command that only has subcommands, or after the word help that of one of them.
func Help(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	sub, rest, err := cmd.Find(args[1:])
	if err == nil && len(rest) > 0 {
		err = KnownCommand(sub, rest)
	}
	if err != nil {
		return err
	}
	sub.InitDefaultHelpFlag()
	return sub.Help()
}

// KnownCommand refuses a word that is not a command, and says which one was probably meant.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || args[0] == help {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	var meant []string
	if name := spelling.Word(args[0], names); name != "" {
		meant = []string{cmd.CommandPath() + " " + name}
	} else {
		meant = pathsOf(cmd.Root(), args[0])
	}
	if len(meant) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(meant, " or "))
	}
	return fmt.Errorf("%s; %q lists the commands", text, cmd.CommandPath()+" --help")
}

// pathsOf returns the commands of a name below others, such as person show for show.
func pathsOf(root *cobra.Command, name string) (paths []string) {
	for _, c := range root.Commands() {
		if c.HasParent() && c.Parent().HasParent() && c.Name() == name && c.IsAvailableCommand() {
			paths = append(paths, c.CommandPath())
		}
		paths = append(paths, pathsOf(c, name)...)
	}
	return paths
}

// argumentProblem says in words what a check of arguments has found, and which flag an address was probably meant for.
func argumentProblem(cmd *cobra.Command, args []string, err error) string {
	text := err.Error() // of cobra, unless the command has a check of its own
	switch {
	case len(args) == 0 && (strings.HasPrefix(text, "accepts ") || strings.HasPrefix(text, "requires at least ")):
		return "an argument is missing"
	case !strings.HasPrefix(text, "unknown command"):
		return text
	case strings.Contains(args[0], "://") && cmd.Flags().Lookup("url") != nil:
		return fmt.Sprintf("%s takes no argument; did you mean --url %s?", cmd.CommandPath(), args[0])
	}
	return fmt.Sprintf("%s takes no argument, and got %q", cmd.CommandPath(), args[0])
}

// ClearArguments makes a command and those below it say how they are written, where arguments are missing or too many,
// and which flag a misspelled one was probably meant to be.
func ClearArguments(cmd *cobra.Command) {
	if check := cmd.Args; check != nil && !cmd.HasSubCommands() {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%s: write %s", argumentProblem(cmd, args, err), strings.TrimSuffix(cmd.UseLine(), " [flags]"))
			}
			return nil
		}
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		unknown := new(pflag.NotExistError)
		if !errors.As(err, &unknown) {
			return err
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if name := spelling.Word(unknown.GetSpecifiedName(), names); name != "" {
			return fmt.Errorf("%w; did you mean --%s?", err, name)
		}
		return err
	})
	for _, sub := range cmd.Commands() {
		ClearArguments(sub)
	}
}
