package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/cli/progress"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

func backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup <file>",
		Short: "Writes a copy of the running server's records",
		Long: `Writes one consistent copy of all records to a new file, mode 0600, while the server goes
on. The copy holds password hashes and sealed keys, and not the encryption key that opens
them: keep that apart, since without it a restored server cannot open its private keys.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			var finished adminapi.FinishedBackup
			var refused error
			n, err := transfer.WriteFile(args[0], func(w io.Writer) error {
				var resp *http.Response
				if resp, refused = open(cmd, "/backup?"+url.Values{"file": {path}}.Encode(), nil); refused != nil {
					return refused
				}
				defer resp.Body.Close() //nolint:errcheck // read to its end
				finished.ID = resp.Header.Get(adminapi.BackupID)
				_, err := io.Copy(w, resp.Body)
				return err
			})
			if refused != nil {
				return refused
			}
			if err != nil {
				finished.Problem = err.Error()
			}
			if finished.ID != "" {
				if unknown := call(cmd, "/backup", finished, nil); unknown != nil {
					_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "The server does not know what has become of the backup:", unknown)
				}
			}
			if err != nil {
				return err
			}
			return printResult(cmd, map[string]any{"file": args[0], "bytes": n, "holds_encryption_key": false},
				fmt.Sprintf("wrote %s (%d bytes)", args[0], n), "The encryption key is not in it: keep a copy of the key apart.")
		},
	}
}

func restoreCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "restore <file>",
		Short: "Fills an empty storage from a backup, while no server uses it",
		Long: `Fills the storage from a backup. Its directory or table must be empty or missing and no server may use it:
stop the server and move the old directory away first. The storage is that of --config, or
--storage, or the default directory. Tokens and sessions of the backup are ended, since some of
them may have been revoked after it was made: everyone signs in again. A storage without a
directory is not used before the restore has finished; if it is interrupted, run it again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
			defer cancel()
			s, err := storageToRestore(ctx, cmd, dir)
			if err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // only read
			var records int64
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() { // a pipe can be read only once
				if records, err = transfer.CheckFile(args[0]); err != nil {
					return fmt.Errorf("%s: %w", args[0], err)
				}
			}
			var newest time.Time
			end := adminapi.EndOlder(ctx)
			after := func(tx storage.Tx) (err error) {
				if newest, err = audit.Newest(tx); err != nil {
					return err
				}
				return end(tx)
			}
			told := newProgress(cmd.ErrOrStderr())
			defer told.End()
			if restorer, ok := s.(Restorer); ok {
				err = restorer.Restore(ctx, progress.NewReader(f, sizeOf(f), told), func(tx storage.Tx) error {
					if err := cluster.Readable(tx); err != nil {
						return err
					}
					return after(tx)
				})
			} else {
				err = restoreRecords(ctx, cmd, s, f, after)
			}
			if err != nil {
				return err
			}
			told.End()
			what := s.Place()
			if records > 0 {
				what += ": " + count(int(records), "record")
			}
			if !newest.IsZero() {
				what += ", the newest event of " + day(newest)
			}
			lines := []string{"restored " + what, "Older tokens and sessions are ended."}
			if kf, ok := s.(interface{ KeyFile() (string, bool) }); ok {
				path, _ := kf.KeyFile()
				if _, err := os.Stat(path); err != nil {
					lines = append(lines, "A backup holds no encryption key: put the old one at "+path+", mode 0600, or give it as encryption_key.")
				}
			}
			return printResult(cmd, map[string]any{"storage": s.Place(), "records": records, "newest_event": newest.UTC(), "sessions_ended": true},
				lines...)
		},
	}
	cmd.Flags().StringVar(&dir, "storage", "", "The storage directory, where --config does not say it")
	return cmd
}

// restoreRecords restores into a storage that is not a directory.
func restoreRecords(ctx context.Context, cmd *cobra.Command, s storageModule, file *os.File, after func(storage.Tx) error) error {
	to, err := openModule(ctx, s)
	if err != nil {
		return err
	}
	name := "backup " + filepath.Base(file.Name())
	_, err = copyRecords(ctx, cmd, &transfer.Copy{From: transfer.FromBackup(file), Name: name, To: to, After: after})
	return errors.Join(err, to.Close())
}

// sizeOf returns the size of a file. 0: unknown
func sizeOf(f *os.File) int64 {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

func newProgress(out io.Writer) *progress.Teller { return progress.New(out, isTerminal(out), time.Now) }

// Restorer is a storage module that can be filled from a backup while no server uses it.
type Restorer interface {
	// Restore fills the empty store from r and then runs after in a transaction of its own. It refuses a store in use.
	Restore(ctx context.Context, r io.Reader, after func(storage.Tx) error) error
}

// storageModule is the interface of every storage module.
type storageModule interface {
	Place() string
	Open(ctx context.Context, log *zap.Logger) (storage.Store, error)
}

const (
	storagePrefix  = "gatehouse.storage."
	defaultStorage = "badger"
)

// storageToRestore finds the storage without starting anything.
func storageToRestore(ctx caddy.Context, cmd *cobra.Command, dir string) (storageModule, error) {
	if dir != "" {
		return badgerIn(ctx, dir)
	}
	_, raw, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	return configuredStorage(ctx, raw)
}

// badgerIn is the default storage in a directory.
func badgerIn(ctx caddy.Context, dir string) (storageModule, error) {
	raw, err := json.Marshal(map[string]string{"path": dir})
	if err != nil {
		return nil, err
	}
	return loadStorage(ctx, defaultStorage, raw)
}

func loadStorage(ctx caddy.Context, name string, section json.RawMessage) (storageModule, error) {
	mod, err := ctx.LoadModuleByID(storagePrefix+name, section)
	if err != nil {
		return nil, err
	}
	s, ok := mod.(storageModule)
	if !ok {
		return nil, fmt.Errorf("module %T does not open a store", mod)
	}
	return s, nil
}

// configuredStorage returns the storage of a configuration, or the default.
func configuredStorage(ctx caddy.Context, raw []byte) (storageModule, error) {
	var config struct {
		Apps struct {
			Gatehouse struct {
				Storage json.RawMessage `json:"storage"`
			} `json:"gatehouse"`
		} `json:"apps"`
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &config); err != nil {
			return nil, err
		}
	}
	section := config.Apps.Gatehouse.Storage
	if section == nil {
		return loadStorage(ctx, defaultStorage, nil)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(section, &members); err != nil {
		return nil, err
	}
	var name string
	if err := json.Unmarshal(members["module"], &name); err != nil {
		return nil, fmt.Errorf("storage: module: %w", err)
	}
	delete(members, "module") // modules refuse members they do not know
	section, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	return loadStorage(ctx, name, section)
}
