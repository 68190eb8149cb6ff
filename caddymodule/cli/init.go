package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/initwizard"
)

func initCommand() *cobra.Command {
	var site initwizard.Site
	var dir string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Writes a first Caddyfile for a site behind a sign-in",
		Long: `Writes a Caddyfile that puts a site behind a sign-in, and says which DNS records
and ports it needs and how the first administrator is invited. What no flag
gives is asked for. Addresses are taken as they are copied from a browser, and a
number is a port of this machine. It needs no server, and overwrites no file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := site.Place(dir); err != nil {
				return err
			}
			if err := askSite(cmd, &site); err != nil {
				return err
			}
			if err := site.Check(); err != nil {
				return err
			}
			if err := site.Write(); err != nil {
				return err
			}
			return printResult(cmd, site, site.Lines()...)
		},
	}
	f := cmd.Flags()
	f.StringVar(&site.Domain, "domain", "", "The site that people sign in to, such as wiki.example.com")
	f.StringVar(&site.Upstream, "upstream", "", "Where the site is served now, such as localhost:9001")
	f.StringVar(&site.Email, "email", "", "The address of the first administrator, also for the certificates")
	f.StringVar(&site.Issuer, "issuer", "", "The host of the sign-in pages (default auth. and the domain)")
	f.StringVar(&dir, "dir", ".", "The directory that the Caddyfile is written to")
	return cmd
}

// askSite asks for what no flag has given, unless the output is for a program. A question whose answer is refused is
// asked again.
func askSite(cmd *cobra.Command, site *initwizard.Site) error {
	asJSON, err := cmd.Flags().GetBool("json")
	if err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), adminapi.MaxBody))
	for _, q := range []struct {
		value    *string
		flag, of string
		read     func(string) (string, error)
	}{
		{&site.Domain, "domain", "The site that people sign in to, such as wiki.example.com", initwizard.Host},
		{&site.Upstream, "upstream", "Where it is served now, such as localhost:9001", initwizard.Upstream},
		{&site.Email, "email", "The e-mail address of the first administrator", initwizard.Email},
	} {
		if *q.value != "" {
			continue
		}
		if asJSON {
			return fmt.Errorf("--%s is missing", q.flag)
		}
		*q.value, err = ask(cmd.ErrOrStderr(), in, q.of, q.read)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("no %s given: answer the question, or name it with --%s", q.flag, q.flag)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ask repeats a question until there is an answer that can be read. io.EOF: nothing was typed.
func ask(out io.Writer, in *bufio.Reader, question string, read func(string) (string, error)) (string, error) {
	for {
		if _, err := fmt.Fprintf(out, "%s: ", question); err != nil {
			return "", err
		}
		line, ended := in.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			value, err := read(line)
			if err == nil || ended != nil {
				return value, err
			}
			if _, err := fmt.Fprintln(out, err); err != nil {
				return "", err
			}
		}
		if ended != nil {
			return "", ended
		}
	}
}
