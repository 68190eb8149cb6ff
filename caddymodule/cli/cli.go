// Package cli is `caddy gatehouse`: its commands, prompts and output. They run in a process of their own and reach the
// server through Caddy's admin API alone, whose operations are in package adminapi.
package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/cli/inspect"
	"github.com/gatehouse-id/gatehouse/caddymodule/cli/suggest"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "gatehouse",
		Usage: "<command>",
		Short: "Manages people, clients, tokens and backups of Gatehouse",
		Long: `
Manages a running Gatehouse through Caddy's admin API. Every command prints text
for people, or with --json one JSON value for programs.

Where the admin API listens is found as with Caddy's own commands: --address
names it, or --config the configuration in which it is set. With "admin off"
only init, secret, version, restore, accept-loss, storage copy, doctor and mcp work.`,
		CobraFunc: func(cmd *cobra.Command) { addCommands(cmd) },
	})
}

// addCommands adds every command, in the groups of the help.
func addCommands(root *cobra.Command) {
	root.PersistentFlags().String("address", "", "The address of Caddy's admin API")
	root.PersistentFlags().StringP("config", "c", "", "The configuration file, to find the admin API and the storage in")
	root.PersistentFlags().StringP("adapter", "a", "", "The name of the configuration's adapter, where its file name does not tell")
	root.PersistentFlags().Bool("json", false, "Print one JSON value")
	root.SilenceUsage = true
	root.Args = suggest.KnownCommand
	root.RunE = suggest.Help
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Start", []*cobra.Command{initCommand(), checkCommand(), adminCommands(), importCommand(), secretCommand(), versionCommand()}},
		{"People", []*cobra.Command{personCommands(), groupCommands(), sessionCommands(), accessCommands(), mailCommands()}},
		{"Applications", []*cobra.Command{clientCommands(), tokenCommands(), providerCommands(), policyCommands(), mcpCommands()}},
		{"Look", []*cobra.Command{whyCommand(), explainCommand(), eventCommands(), doctorCommand(), limitCommands(), nodesCommand()}},
		{"Keep", []*cobra.Command{
			backupCommand(), restoreCommand(), configCommands(), keyCommands(), keyPairCommands(), storageCommands(),
			upgradeCommands(), acceptLossCommand(),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	suggest.ClearArguments(root)
	jsonErrors(root)
}

// group is a command that only has subcommands.
func group(use, short string, sub ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: suggest.KnownCommand, RunE: suggest.Help,
	}
	cmd.AddCommand(sub...)
	return cmd
}

func secretCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "secret",
		Short: "Prints a good client secret",
		Long:  "Prints a secret of 256 random bits, for a client, an API client or a cookie. It needs no server.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var b [32]byte
			if _, err := io.ReadFull(rand.Reader, b[:]); err != nil {
				return err
			}
			text := base64.RawURLEncoding.EncodeToString(b[:])
			return printResult(cmd, map[string]string{"secret": text}, text)
		},
	}
}

// printResult prints the result of a command: v as JSON with --json, otherwise the lines, in which nothing steers a
// terminal: names and reasons are what people and applications have chosen.
func printResult(cmd *cobra.Command, v any, lines ...string) error {
	out := cmd.OutOrStdout()
	if asJSON, err := cmd.Flags().GetBool("json"); err != nil || asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return errors.Join(err, enc.Encode(v))
	}
	_, err := fmt.Fprintln(out, strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return c
		}
		return printable(c)
	}, strings.Join(lines, "\n")))
	return err
}

// adminAddress finds the admin API as Caddy's own commands do, and says so when it is switched off.
func adminAddress(cmd *cobra.Command) (string, error) {
	address, err := cmd.Flags().GetString("address")
	if err != nil || address != "" {
		return address, err
	}
	file, config, err := loadConfig(cmd)
	if err != nil || file == "" {
		return caddy.DefaultAdminListen, err
	}
	var admin struct {
		Admin struct {
			Disabled bool   `json:"disabled"`
			Listen   string `json:"listen"`
		} `json:"admin"`
	}
	if err := json.Unmarshal(config, &admin); err != nil {
		return "", fmt.Errorf("read the admin address in %s: %w", file, err)
	}
	if admin.Admin.Disabled {
		return "", fmt.Errorf("%s has `admin off`: this command talks to the running server through Caddy's admin API, so it cannot work; only init, secret, restore, accept-loss and storage copy can", file)
	}
	if admin.Admin.Listen == "" {
		return caddy.DefaultAdminListen, nil
	}
	return caddy.NewReplacer().ReplaceKnown(admin.Admin.Listen, ""), nil
}

// loadConfig returns the file that --config names and its JSON, or nothing when there is no such flag.
func loadConfig(cmd *cobra.Command) (file string, config []byte, err error) {
	file, config, _, err = adaptConfig(cmd)
	return file, config, err
}

// adaptConfig is loadConfig with the warnings of the adapter.
func adaptConfig(cmd *cobra.Command) (file string, config []byte, warnings []caddyconfig.Warning, err error) {
	if file, err = cmd.Flags().GetString("config"); err != nil || file == "" {
		return "", nil, nil, err
	}
	adapter, err := cmd.Flags().GetString("adapter")
	if err != nil {
		return "", nil, nil, err
	}
	config, warnings, err = inspect.Adapt(file, adapter, cmd.InOrStdin())
	return file, config, warnings, err
}

// call asks the running server. in nil: a GET; out nil: the answer is not read.
func call(cmd *cobra.Command, path string, in, out any) error {
	resp, err := open(cmd, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

// show asks the running server, and prints the answer by lines.
func show[T any](cmd *cobra.Command, path string, in any, lines func(*T) []string) error {
	var out T
	if err := call(cmd, path, in, &out); err != nil {
		return err
	}
	return printResult(cmd, out, lines(&out)...)
}

// tell is show for an answer that is one sentence or value.
func tell[T any](cmd *cobra.Command, path string, in any, line func(*T) string) error {
	return show(cmd, path, in, func(out *T) []string { return []string{line(out)} })
}

// do has the running server change something, and prints what was done.
func do(cmd *cobra.Command, path string, in any, done string) error {
	return tell(cmd, path, in, func(*adminapi.Outcome) string { return done })
}

func open(cmd *cobra.Command, path string, in any) (*http.Response, error) {
	address, err := adminAddress(cmd)
	if err != nil {
		return nil, err
	}
	method, content := http.MethodGet, io.Reader(nil)
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		method, content = http.MethodPost, bytes.NewReader(raw)
	}
	resp, err := caddycmd.AdminAPIRequest(address, method, "/gatehouse"+path, nil, content)
	if err != nil {
		return nil, ownWords(address, err)
	}
	return resp, nil
}

// ownWords takes the server's own words out of the error that Caddy wraps them in.
func ownWords(address string, err error) error {
	text := err.Error()
	_, answer, answered := strings.Cut(text, "caddy responded with error: HTTP ")
	if !answered {
		return fmt.Errorf("no admin API at %s: is the server running, without `admin off`? Name the address with --address or --config (%w)",
			address, err)
	}
	status, raw, _ := strings.Cut(answer, ": ")
	var e adminapi.Refusal
	if json.Unmarshal([]byte(raw), &e) == nil && e.Error != "" {
		return errors.New(e.Error)
	}
	if status == "404" {
		return fmt.Errorf("the server at %s does not know this command: is Gatehouse built into it?", address)
	}
	return fmt.Errorf("the server at %s answered %s", address, answer)
}
