package cli

import (
	"net/url"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

// The shell asks for the names that can follow: `caddy completion bash`. A server that does not answer has none.

func completePersons(cmd *cobra.Command, args []string, typedSoFar string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeAnyPerson(cmd, args, typedSoFar)
}

func completeAnyPerson(cmd *cobra.Command, _ []string, typedSoFar string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var page adminapi.Page[person.Person]
	if err := call(cmd, "/persons?limit=50&match="+url.QueryEscape(typedSoFar), nil, &page); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, p := range page.Items {
		out = append(out, cobra.CompletionWithDesc(adminapi.Typed(p), p.Name))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeOne completes the first argument by a list of the server.
func completeOne[T any](cmd *cobra.Command, args []string, path string, each func(*T) (name, about string)) (
	out []cobra.Completion, _ cobra.ShellCompDirective,
) {
	var list []T
	if len(args) > 0 || call(cmd, path, nil, &list) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for i := range list {
		if name, about := each(&list[i]); name != "" {
			out = append(out, cobra.CompletionWithDesc(name, about))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func completeClients(cmd *cobra.Command, args []string, typedSoFar string) ([]cobra.Completion, cobra.ShellCompDirective) {
	path := "/clients?match=" + url.QueryEscape(typedSoFar)
	return completeOne(cmd, args, path, func(c *listedClient) (string, string) { return c.ID, c.Name })
}

func completeProviders(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeOne(cmd, args, "/idps", func(p *adminapi.ProviderInfo) (string, string) { return p.ID, p.Name })
}

func completeKeyPairs(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeOne(cmd, args, "/key-pairs", func(p *keystore.Rotation) (string, string) {
		if p.NextStep == "" {
			return "", ""
		}
		return p.Name, string(p.Stage)
	})
}

// completeFlag completes the values of a flag of the command.
func completeFlag(cmd *cobra.Command, name string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(name,
		func(cmd *cobra.Command, _ []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return with(cmd, nil, text)
		}); err != nil {
		panic(err) // the flag is not defined
	}
}

// completeArguments gives commands the completion of their arguments.
func completeArguments(with cobra.CompletionFunc, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.ValidArgsFunction = with
	}
	return commands
}
