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

func completeClients(cmd *cobra.Command, args []string, typedSoFar string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	if len(args) > 0 || call(cmd, "/clients?match="+url.QueryEscape(typedSoFar), nil, &list) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, c := range list {
		out = append(out, cobra.CompletionWithDesc(c.ID, c.Name))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func completeProviders(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list []adminapi.ProviderInfo
	if len(args) > 0 || call(cmd, "/idps", nil, &list) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, p := range list {
		out = append(out, cobra.CompletionWithDesc(p.ID, p.Name))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func completeKeyPairs(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list []keystore.Rotation
	if len(args) > 0 || call(cmd, "/key-pairs", nil, &list) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, p := range list {
		if p.Name != "" && p.NextStep != "" {
			out = append(out, cobra.CompletionWithDesc(p.Name, string(p.Stage)))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
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
