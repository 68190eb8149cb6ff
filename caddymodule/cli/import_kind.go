package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/cli/movein"
	"github.com/gatehouse-id/gatehouse/identity/importer"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// moving is a system whose exports can be imported.
type moving struct {
	// persons reports whether it has persons.
	persons bool
	// clients reads the clients of a file. nil: it has none.
	clients func(io.Reader) (*movein.Clients, error)
	files   int // how many it takes at most
}

var movings = map[string]moving{
	"keycloak":  {persons: true, clients: movein.Keycloak, files: 1},
	"authelia":  {persons: true, clients: movein.Authelia, files: 2},
	"authentik": {persons: true, clients: movein.Authentik, files: 1},
	"htpasswd":  {persons: true, files: 1},
	"auth0":     {persons: true, files: 2},
	"dex":       {persons: true, clients: movein.Dex, files: 1},
	"hydra":     {clients: movein.Hydra, files: 1},
	"ldif":      {persons: true, files: 1},
	"csv":       {persons: true, files: 1},
	"jsonl":     {persons: true, files: 1},

	"oauth2-proxy":   {clients: movein.OAuth2Proxy, files: 1},
	"caddy-security": {clients: movein.CaddySecurity, files: 1},
}

func importCommand() *cobra.Command {
	var k kindImport
	cmd := &cobra.Command{
		Use:   "import [<kind>] <file>...",
		Short: "Imports people and clients of another system, or people from CSV, JSON lines or LDIF",
		Long: `Imports what another system has exported, or a file of your own. People go into the running
server, with the hashes of their passwords and, from Keycloak, their ids, so
applications recognise them. Clients are printed as blocks of the Caddyfile. What is not
imported is listed with its line, and --dry-run lists it without importing anything.

  csv        lines with the columns that the first line names. The name of the file
             (.csv, .jsonl, .ldif) says the kind too, and - reads standard input
  jsonl      a JSON object on each line
  keycloak   the file of kc.sh export --users same_file, or one of different_files
  authelia   users_database.yml, configuration.yml, or both
  authentik  what ak export_blueprint prints
  htpasswd   the file of Apache, nginx or Traefik
  auth0      the lines of the export of users, then the file with the hashes of support
  ldif       the entries of a directory, with groups that name their members
  dex        its configuration, with staticPasswords, staticClients and connectors
  hydra      what hydra list oauth2-clients --format json prints

  oauth2-proxy    oauth2-proxy.cfg: its provider as an idp, its upstreams as a site
  caddy-security  the Caddyfile of that plugin: providers as idps, sites and their policies

People who exist are left alone, so the command can be repeated; with --update they are
given what the file says, except a password where they have one.

Hashes of passwords are taken as they are (Argon2, bcrypt, scrypt, yescrypt, PBKDF2, $5$,
$6$, $apr1$, {SSHA} and its variants) and replaced when the person signs in; plain passwords
must meet the policy.

Columns of CSV are username, password_hash, name, given_name, family_name, email,
email_verified, groups (with ; between), locale, active, external_id and more; custom.NAME
is an attribute of your own. JSON lines have members of these names, groups as a list, and
profile as the credentials API answers it.`,
		Example: `  caddy gatehouse import people.csv --dry-run
  caddy gatehouse import keycloak realm.json --dry-run
  caddy gatehouse import keycloak realm.json >> Caddyfile`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, files := args[0], args[1:]
			if by := importer.FormatOf(kind); len(files) == 0 && by != "" {
				kind, files = by, args
			}
			m, known := movings[kind]
			if !known {
				return fmt.Errorf("%q is not a kind of export%s: want one of %s", kind, meantKind(kind),
					strings.Join(slices.Sorted(maps.Keys(movings)), ", "))
			}
			if len(files) == 0 {
				return fmt.Errorf("no file given: write %s", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
			}
			if len(files) > m.files {
				return fmt.Errorf("%s takes at most %s", kind, count(m.files, "file"))
			}
			return k.run(cmd, kind, m, files)
		},
		ValidArgs: slices.Sorted(maps.Keys(movings)),
	}
	f := cmd.Flags()
	f.BoolVar(&k.dry, "dry-run", false, "Write nothing: say what would come, and what of each person would not")
	f.BoolVar(&k.update, "update", false, "Change people who exist already")
	f.BoolVar(&k.newIDs, "new-ids", false, "Give people new ids: applications see new users")
	f.StringVar(&k.partition, "partition", "", "The partition of the people")
	f.StringVar(&k.report, "report", "", "Write the whole result into this file, as JSON")
	f.IntVar(&k.from, "from", 0, "Begin at this line of the file")
	return cmd
}

// meantKind says which kind a misspelled one was probably meant to be.
func meantKind(kind string) string {
	if name := spelling.Word(kind, slices.Collect(maps.Keys(movings))); name != "" {
		return fmt.Sprintf(", did you mean %s?", name)
	}
	return ""
}

// kindImport is one run of the command.
type kindImport struct {
	dry, update, newIDs bool
	partition, report   string
	from                int
}

// kindResult is the result that --report writes and --json prints.
type kindResult struct {
	Persons   *importCount  `json:"persons,omitempty"`
	Notes     []movein.Note `json:"notes,omitempty"`     // of clients
	Caddyfile string        `json:"caddyfile,omitempty"` // for the block gatehouse
	Sites     string        `json:"sites,omitempty"`     // outside of the global options
}

func (k *kindImport) run(cmd *cobra.Command, kind string, m moving, files []string) error {
	people, settings, err := sortFiles(kind, files)
	if err != nil {
		return err
	}
	var result kindResult
	var summary string
	var failed error
	if people != "" && m.persons {
		im := upload{cmd: cmd, partition: k.partition, from: k.from, newIDs: k.newIDs, began: time.Now()}
		im.request.Update, im.request.Check = k.update, k.dry
		opened, done, err := im.open(kind, people, files)
		if err != nil {
			return err
		}
		defer done()
		if im.in, err = openPersons(kind, people, opened); err != nil {
			return fmt.Errorf("%s: %w", people, err)
		}
		if err := im.run(); err != nil {
			return err
		}
		result.Persons, summary = &im.result, im.summary()
		if m.clients != nil {
			say(cmd, im.summary())
		}
		if im.total() == 0 && im.result.Skipped == 0 {
			say(cmd, "the file has no persons: "+kind+" has exported it without them")
		}
		for _, n := range im.result.Notes {
			say(cmd, n.text())
		}
		if n := im.result.Failed; n > 0 {
			failed = fmt.Errorf("%s not imported", count(n, "person"))
			if k.dry {
				failed = fmt.Errorf("%s would not be imported", count(n, "person"))
			}
		}
	}
	if m.clients != nil && settings != "" {
		clients, err := m.readClients(settings)
		if err != nil {
			return err
		}
		for _, n := range clients.Notes {
			say(cmd, n.String())
		}
		result.Notes, result.Caddyfile, result.Sites = clients.Notes, clients.Caddyfile(), clients.Sites
	}
	if err := k.write(&result); err != nil {
		return err
	}
	if asJSON, err := cmd.Flags().GetBool("json"); err != nil || asJSON {
		return errors.Join(printResult(cmd, result), failed)
	}
	text := result.Caddyfile
	if m.clients == nil {
		text = summary + "\n"
	}
	if result.Sites != "" {
		text += "\n# Sites, outside of the global options:\n\n" + result.Sites
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), text); err != nil {
		return err
	}
	return failed
}

func say(cmd *cobra.Command, text string) {
	fmt.Fprintln(cmd.ErrOrStderr(), text) //nolint:errcheck // the terminal is gone
}

// write writes the report.
func (k *kindImport) write(result *kindResult) error {
	if k.report == "" {
		return nil
	}
	raw, err := json.MarshalIndent(result, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(k.report, append(raw, '\n'), 0o600)
}

// sortFiles tells which file has the persons and which the clients.
func sortFiles(kind string, files []string) (people, settings string, err error) {
	if kind != "authelia" {
		return files[0], files[0], nil
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return "", "", err
		}
		_, noUsers := importer.New(f, importer.Authelia)
		f.Close() //nolint:errcheck,gosec // only read
		switch {
		case noUsers == nil && people == "":
			people = name
		case noUsers != nil && settings == "":
			settings = name
		default:
			return "", "", fmt.Errorf("%s is a second file of the same kind", name)
		}
	}
	return people, settings, nil
}

func (m *moving) readClients(name string) (*movein.Clients, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return m.clients(f)
}

// openPersons returns a reader of the persons in the files. Only a file can be read twice, which groups of LDIF need.
func openPersons(kind, name string, opened []importer.File) (importer.Reader, error) {
	if kind != importer.CSV && kind != importer.JSONL && (kind != importer.LDIF || name != stdin) {
		return importer.Open(kind, opened...)
	}
	in, err := opened[0]()
	if err != nil {
		return nil, err
	}
	return importer.New(in, kind)
}

// stdin is the name of standard input as a file.
const stdin = "-"

// open opens the file with the persons, whose progress is known, and the files that go with it.
func (im *upload) open(kind, people string, files []string) (opened []importer.File, done func(), err error) {
	names := []string{people}
	if importer.Files(kind) > 1 {
		names = files
	}
	var open []*os.File
	begun := make([]bool, len(names))
	done = func() {
		for _, f := range open {
			f.Close() //nolint:errcheck,gosec // only read
		}
	}
	for i, name := range names {
		if name == stdin {
			opened = append(opened, func() (io.Reader, error) { return im.cmd.InOrStdin(), nil })
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			done()
			return nil, nil, err
		}
		open = append(open, f)
		opened = append(opened, func() (io.Reader, error) {
			if begun[i] { // a pipe cannot be read twice, and needs it for LDIF alone
				if _, err := f.Seek(0, io.SeekStart); err != nil {
					return nil, err
				}
			}
			if begun[i] = true; i > 0 {
				return f, nil
			}
			return im.counting(f), nil
		})
	}
	return opened, done, nil
}
