package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

func storageCommands() *cobra.Command {
	return group("storage", "Copies all records into another storage", copyCommand())
}

func copyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "copy <from> <to>",
		Short: "Copies all records into another, empty storage, while no server uses either",
		Long: `Copies all records into another, empty storage, such as from a directory into a database or back.
Stop the server first. Each of the two is

  a directory                     the storage of "storage badger <directory>"
  <module>:<argument>             as the Caddyfile has it: postgres:{env.DATABASE_URL}, badger:/var/lib/gatehouse
  a Caddyfile, or its JSON        the storage of that configuration
  a file written by backup        to copy from; unlike restore, tokens and sessions go on

Write a URL with a password as {env.NAME} or {file./path}: other users of this machine can read
command lines. The source is read to its end before anything is written, and is not changed. At the
end source and target are compared record by record, and the number of records and a hash of each
table are printed. A copy that was interrupted continues when the same command is run again; until it
has finished, no server starts on the target. The encryption key is no record: the new configuration
needs the old one.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := caddy.NewContext(caddy.Context{Context: cmd.Context()})
			defer cancel()
			c, report, err := copyStorage(ctx, cmd, args[0], args[1])
			if err != nil {
				return err
			}
			t := table{noun: "table", header: []string{"TABLE", "RECORDS", "SHA-256"}}
			for _, of := range report.Tables {
				t.rows = append(t.rows, []string{of.Name, fmt.Sprint(of.Records), of.SHA256})
			}
			lines := append(t.lines(), fmt.Sprintf("copied %s from %s: source and target are equal", count(report.Records, "record"), c.Name))
			if report.Expired > 0 {
				lines = append(lines, count(report.Expired, "record")+" expired meanwhile.")
			}
			return printResult(cmd, report,
				append(lines, "The encryption key is not in it: the new configuration needs the old key as encryption_key.")...)
		},
	}
}

func copyStorage(ctx caddy.Context, cmd *cobra.Command, fromText, toText string) (c *transfer.Copy, report *transfer.Report, err error) {
	warnOfPassword(cmd, fromText, toText)
	c = &transfer.Copy{}
	file, err := backupFile(fromText)
	if err != nil {
		return nil, nil, err
	}
	if file != nil {
		defer file.Close() //nolint:errcheck // only read
		c.From, c.Name = transfer.FromBackup(file), "backup "+filepath.Base(fromText)
	}
	to, err := storageOf(ctx, cmd, toText)
	if err != nil {
		return nil, nil, fmt.Errorf("<to>: %w", err)
	}
	if file == nil {
		from, err := storageOf(ctx, cmd, fromText)
		if err != nil {
			return nil, nil, fmt.Errorf("<from>: %w", err)
		}
		if from.Place() == to.Place() {
			return nil, nil, fmt.Errorf("both are %s", to.Place())
		}
		if kf, ok := from.(interface{ KeyFile() (string, bool) }); ok {
			if _, exists := kf.KeyFile(); !exists {
				return nil, nil, fmt.Errorf("<from>: there is no storage in %s", from.Place())
			}
		}
		source, err := openModule(ctx, from)
		if err != nil {
			return nil, nil, fmt.Errorf("<from>: %w", err)
		}
		defer func() { err = errors.Join(err, source.Close()) }()
		if err := source.View(ctx, cluster.Readable); err != nil {
			return nil, nil, fmt.Errorf("<from>: %w", err)
		}
		c.From, c.Name = transfer.FromStore(source), from.Place()
	}
	if c.To, err = openModule(ctx, to); err != nil {
		return nil, nil, fmt.Errorf("<to>: %w", err)
	}
	defer func() { err = errors.Join(err, c.To.Close()) }()
	report, err = copyRecords(ctx, cmd, c)
	return c, report, err
}

// copyRecords copies and tells from time to time how far it is. What a newer version has written is refused before the
// target can be used.
func copyRecords(ctx context.Context, cmd *cobra.Command, c *transfer.Copy) (*transfer.Report, error) {
	p := newProgress(cmd.ErrOrStderr())
	defer p.End()
	c.Tell = func(step string, done, of int) {
		part := -1.0
		if of > 0 {
			part = float64(done) / float64(of)
		}
		p.Tell(part, func() string { return fmt.Sprintf("%s: %s", step, count(done, "record")) })
	}
	also := c.After
	c.After = func(tx storage.Tx) error {
		if err := cluster.Readable(tx); err != nil || also == nil {
			return err
		}
		return also(tx)
	}
	return c.Run(ctx)
}

// openModule opens a storage that no server uses.
func openModule(ctx context.Context, s storageModule) (storage.Store, error) {
	store, err := s.Open(ctx, zap.NewNop())
	if err == nil {
		if err = cluster.Unused(ctx, store); err != nil {
			err = errors.Join(err, store.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("storage %s: %w", s.Place(), err)
	}
	return store, nil
}

// backupFile opens a file if it is a backup. nil: it is something else
func backupFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil //nolint:nilerr,nilnil // storageOf says what it is
	}
	f, err := os.Open(path) //nolint:gosec // the operator's own path
	if err != nil {
		return nil, err
	}
	head := make([]byte, len("gatehouse backup"))
	if _, err := io.ReadFull(f, head); err != nil || !bytes.Equal(head, []byte("gatehouse backup")) {
		return nil, f.Close()
	}
	return f, nil
}

// storageOf finds the storage that an argument names. Nothing is opened.
func storageOf(ctx caddy.Context, cmd *cobra.Command, text string) (storageModule, error) {
	name, argument, named := strings.Cut(text, ":")
	if named && (strings.HasPrefix(argument, "//") || name == "postgresql") {
		name, argument = "postgres", text
	}
	if named {
		if _, err := caddy.GetModule(storagePrefix + name); err == nil {
			return namedStorage(ctx, name, argument)
		}
		if name == "postgres" {
			return nil, errors.New("storage postgres is not built in")
		}
	}
	info, err := os.Stat(text)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.IsDir():
		return badgerIn(ctx, text)
	case err != nil:
		return nil, err
	}
	if f, err := backupFile(text); err != nil || f != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return nil, errors.Join(fmt.Errorf("%s is a backup: `caddy gatehouse backup` writes one", text), err)
	}
	adapter, err := cmd.Flags().GetString("adapter")
	if err != nil {
		return nil, err
	}
	raw, _, _, err := caddycmd.LoadConfig(text, adapter)
	if err != nil {
		return nil, err
	}
	return configuredStorage(ctx, raw)
}

// namedStorage is the storage that `storage <name> <argument>` would be in the Caddyfile.
func namedStorage(ctx caddy.Context, name, argument string) (storageModule, error) {
	d := caddyfile.NewDispenser([]caddyfile.Token{{Text: name}, {Text: argument}})
	d.Next()
	mod, err := caddyfile.UnmarshalModule(d, storagePrefix+name)
	if err != nil {
		return nil, err
	}
	return loadStorage(ctx, name, caddyconfig.JSON(mod, nil))
}

// warnOfPassword warns of passwords on the command line.
func warnOfPassword(cmd *cobra.Command, args ...string) {
	for _, text := range args {
		at := max(strings.LastIndex(text, "postgres://"), strings.LastIndex(text, "postgresql://"))
		if at < 0 {
			continue
		}
		u, err := url.Parse(text[at:])
		if err != nil {
			continue
		}
		if _, has := u.User.Password(); has || u.Query().Has("password") {
			//nolint:errcheck // the terminal is gone
			fmt.Fprintln(cmd.ErrOrStderr(),
				"warning: other users of this machine can read the password on the command line, and the shell keeps it: write {env.DATABASE_URL} or {file./path} instead")
		}
	}
}
