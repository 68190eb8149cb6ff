package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

func configCommands() *cobra.Command {
	return group("config", "Exports, imports and compares the configuration units", exportConfigCommand(),
		importConfigCommand(), diffConfigCommand())
}

func exportConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export [<file>]",
		Short: "Writes every configuration unit as JSON",
		Long: `Writes every configuration unit and the public part of every key pair as one JSON
object, to a file or to standard output. Secrets are empty, and stay as they are
where the file is imported. Identity providers of the Caddyfile are left out, and so
are uploaded logos and icons: a backup has them.

It works while the configuration API is switched off.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var units json.RawMessage
			if err := call(cmd, "/config", nil, &units); err != nil {
				return err
			}
			var text bytes.Buffer
			if err := json.Indent(&text, units, "", "\t"); err != nil {
				return err
			}
			text.WriteByte('\n')
			if len(args) == 0 {
				_, err := cmd.OutOrStdout().Write(text.Bytes())
				return err
			}
			if err := writeWhole(args[0], text.Bytes()); err != nil {
				return err
			}
			return printResult(cmd, map[string]string{"file": args[0]}, "exported to "+args[0])
		},
	}
}

// writeWhole writes a complete file or nothing: an existing file stays until then.
func writeWhole(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // renamed, or not needed
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func importConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import <file>",
		Short: "Applies configuration units from a JSON file, all of them or none",
		Long: `Applies a JSON object of configuration units: members that are in the file replace
those that are stored, others stay; arrays are replaced whole; empty secrets keep
what is stored. Everything in the file is applied, or nothing. - reads standard input.

It works while the configuration API is switched off, and is the way to switch it
on again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sendConfig(cmd, args[0], "/config/import", "changed")
		},
	}
}

func diffConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff <file>",
		Short: "Prints what import of a JSON file would change",
		Long: `Prints the members and key pairs that import of the file would change, and changes
nothing. Secrets are not compared. - reads standard input.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sendConfig(cmd, args[0], "/config/diff", "would change")
		},
	}
}

// sendConfig sends a file and prints what has changed.
func sendConfig(cmd *cobra.Command, file, path, verb string) error {
	raw, err := readConfigFile(cmd, file)
	if err != nil {
		return err
	}
	return show(cmd, path, json.RawMessage(raw), func(changed *[]settings.Change) []string {
		lines := []string{count(len(*changed), "member") + " " + verb}
		for _, c := range *changed {
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", c.Path, short(c.From), short(c.To)))
		}
		return lines
	})
}

// short is a value on one line; a long one is cut.
func short(v json.RawMessage) string {
	const most = 200
	if r := []rune(string(v)); len(r) > most {
		return string(r[:most]) + "…"
	}
	return string(v)
}

func readConfigFile(cmd *cobra.Command, file string) ([]byte, error) {
	var raw []byte
	var err error
	if file == "-" {
		raw, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), settings.MaxConfiguration+1))
	} else {
		raw, err = os.ReadFile(file) //nolint:gosec // the caller's own path
	}
	if err != nil {
		return nil, err
	}
	if len(raw) > settings.MaxConfiguration {
		return nil, fmt.Errorf("%s is too large: at most %d bytes", file, settings.MaxConfiguration)
	}
	if line, err := strictjson.Fault(raw); err != nil {
		return nil, fmt.Errorf("%s is not JSON: line %d: %w", file, line, err)
	}
	return raw, nil
}
