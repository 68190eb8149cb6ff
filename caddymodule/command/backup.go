package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/command/admin"
	"github.com/gatehouse-id/gatehouse/storage"
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
			resp, err := open(cmd, "/backup", nil)
			if err != nil {
				return err
			}
			defer resp.Body.Close() //nolint:errcheck // read to its end
			n, err := writeNew(args[0], resp.Body)
			if err != nil {
				return err
			}
			return printResult(cmd, map[string]any{"file": args[0], "bytes": n, "holds_encryption_key": false},
				fmt.Sprintf("wrote %s (%d bytes)", args[0], n), "The encryption key is not in it: keep a copy of the key apart.")
		},
	}
}

// writeNew writes a file that must not exist yet, complete and synced, or none.
func writeNew(path string, from io.Reader) (n int64, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, fmt.Errorf("%s exists already", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // linked below, or not needed
	n, err = io.Copy(f, from)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, fmt.Errorf("the backup broke off: %w", err)
	}
	return n, os.Link(f.Name(), path) // unlike Rename, it never replaces
}

func restoreCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "restore <file>",
		Short: "Fills an empty storage from a backup, while no server uses it",
		Long: `Fills the storage directory from a backup. The directory must be empty or missing and no server may use it:
stop the server and move the old directory away first. The storage is that of --config, or
--storage, or the default directory. Tokens and sessions of the backup are ended, since some of
them may have been revoked after it was made: everybody signs in again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
			defer cancel()
			s, err := storageToRestore(ctx, cmd, dir)
			if err != nil {
				return err
			}
			restorer, ok := s.(Restorer)
			if !ok {
				return fmt.Errorf("storage %s has its own way of restoring", s.Place())
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // only read
			in := &progressReader{countingReader: countingReader{from: f}, out: cmd.ErrOrStderr(), told: time.Now()}
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				in.size = info.Size()
			}
			if err := restorer.Restore(ctx, in, admin.EndOlder(ctx)); err != nil {
				return err
			}
			lines := []string{"restored " + s.Place(), "Older tokens and sessions are ended."}
			if kf, ok := s.(interface{ KeyFile() (string, bool) }); ok {
				path, _ := kf.KeyFile()
				if _, err := os.Stat(path); err != nil {
					lines = append(lines, "A backup holds no encryption key: put the old one at "+path+", mode 0600, or give it as encryption_key.")
				}
			}
			return printResult(cmd, map[string]any{"storage": s.Place(), "sessions_ended": true}, lines...)
		},
	}
	cmd.Flags().StringVar(&dir, "storage", "", "The storage directory, where --config does not say it")
	return cmd
}

// progressReader tells from time to time how much of a file was read.
type progressReader struct {
	countingReader

	size int64 // bytes. 0: unknown
	out  io.Writer
	told time.Time
}

func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.countingReader.Read(b)
	if now := time.Now(); now.Sub(p.told) >= progressTime && p.size > 0 {
		p.told = now
		fmt.Fprintf(p.out, "%3d %%\n", 100*p.read/p.size) //nolint:errcheck // the terminal is gone
	}
	return n, err
}

// Restorer is a storage module that can be filled from a backup while no server uses it.
type Restorer interface {
	// Restore fills the empty store from r and then runs after in a transaction of its own. It refuses a store in use.
	Restore(ctx context.Context, r io.Reader, after func(storage.Tx) error) error
}

// storageModule is what every storage module tells of itself.
type storageModule interface {
	Place() string
}

const (
	storagePrefix  = "gatehouse.storage."
	defaultStorage = "badger"
)

// storageToRestore finds the storage without starting anything.
func storageToRestore(ctx caddy.Context, cmd *cobra.Command, dir string) (storageModule, error) {
	name, section := defaultStorage, json.RawMessage(nil)
	if dir != "" {
		raw, err := json.Marshal(map[string]string{"path": dir})
		if err != nil {
			return nil, err
		}
		section = raw
	} else {
		var err error
		if name, section, err = configuredStorage(cmd); err != nil {
			return nil, err
		}
	}
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

// configuredStorage returns the storage module of --config and its options, or the default.
func configuredStorage(cmd *cobra.Command) (name string, section json.RawMessage, err error) {
	_, raw, err := loadConfig(cmd)
	if err != nil {
		return "", nil, err
	}
	var config struct {
		Apps struct {
			Gatehouse struct {
				Storage json.RawMessage `json:"storage"`
			} `json:"gatehouse"`
		} `json:"apps"`
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &config); err != nil {
			return "", nil, err
		}
	}
	if section = config.Apps.Gatehouse.Storage; section == nil {
		return defaultStorage, nil, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(section, &members); err != nil {
		return "", nil, err
	}
	if err := json.Unmarshal(members["module"], &name); err != nil {
		return "", nil, fmt.Errorf("storage: module: %w", err)
	}
	delete(members, "module") // modules refuse members they do not know
	section, err = json.Marshal(members)
	return name, section, err
}
