package caddyfileutil

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Places says where options stand in a Caddyfile, as file:line. Its keys are the names that messages begin with, such
// as "client shop: secret". They travel in the JSON, so what is only known when the configuration is loaded can still
// be said with its line.
type Places map[string]string

// named are the words of the global block, and person, whose first argument names their block. The arguments of others
// are no part of a key: they can be secret.
var named = map[string]bool{
	"scope": true, "policy": true, "client": true, "api_client": true, "idp": true, "person": true, "storage": true, "mail": true,
	"sms": true, "push": true,
	"forward_auth": true, "plan": true, "group": true, "service_provider": true, "trust_issuer": true,
}

// ReadPlaces notes the places of a directive and of all words in its block, and sets the dispenser back to the
// directive. prefix begins each key, or is empty.
func ReadPlaces(d *caddyfile.Dispenser, prefix string) Places {
	p := Places{}
	segment := caddyfile.NewDispenser(d.NextSegment())
	d.Reset()
	d.Next()
	if !segment.Next() {
		return p
	}
	if prefix != "" {
		p[prefix] = place(segment)
	}
	segment.RemainingArgs()
	p.read(segment, prefix)
	return p
}

func place(d *caddyfile.Dispenser) string { return fmt.Sprintf("%s:%d", d.File(), d.Line()) }

// read notes the words of the block that opens after the current token.
func (p Places) read(d *caddyfile.Dispenser, of string) {
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		word, at := d.Val(), place(d)
		args := d.RemainingArgs()
		key := word
		switch {
		case named[word] && len(args) > 0 && (of == "" || word == "person"):
			key = word + " " + args[0]
		case strings.Contains(of, ": "):
			key = of + " " + word
		case of != "":
			key = of + ": " + word
		}
		if _, again := p[key]; !again {
			p[key] = at
		}
		p.read(d, key)
	}
}

// Of returns the place of an option, or of the block that it stands in. "": unknown.
func (p Places) Of(option string) string {
	for option != "" {
		if at, ok := p[option]; ok {
			return at
		}
		i := strings.LastIndexAny(option, " :")
		option = strings.TrimRight(option[:max(i, 0)], " :")
	}
	return ""
}

// Locate adds the place of the option that an error begins with, unless the error names a place already.
func (p Places) Locate(err error) error {
	if err == nil || placed.MatchString(err.Error()) {
		return err
	}
	text, key := strings.ReplaceAll(strings.TrimPrefix(err.Error(), AppName+": "), `"`, ""), ""
	for k := range p {
		if rest, ok := strings.CutPrefix(text, k); ok && len(k) > len(key) && (rest == "" || strings.ContainsRune(" :", rune(rest[0]))) {
			key = k
		}
	}
	return located(err, p[key])
}

// LocateIn adds the place of a block, such as "mail" or "idp corp", to the error of the module that it configures: the
// place of the option that the error names, where it names one.
func (p Places) LocateIn(err error, block string) error {
	if err == nil || placed.MatchString(err.Error()) {
		return err
	}
	best, key := "", ""
	for k := range p {
		of, option, _ := strings.Cut(k, ": ")
		switch {
		case of != block && !strings.HasPrefix(of, block+" "):
		case key == "" && option == "":
			key = k
		case option != "" && len(option) > len(best) && strings.Contains(err.Error(), " "+option+": "):
			best, key = option, k
		}
	}
	return located(err, p[key])
}

func located(err error, at string) error {
	if at == "" {
		return err
	}
	return fmt.Errorf("%w, at %s", err, at)
}

var (
	placed      = regexp.MustCompile(`, at [^ ]+:[0-9]+`)
	environment = regexp.MustCompile(`\{\$([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// missing is the error of a word without a value. Caddy has replaced {$X} before the words are read, so a variable
// which is not set leaves nothing behind: the line of the file tells which one it was.
func missing(d *caddyfile.Dispenser, word, what string) error {
	text := word + ": " + what
	if name := unset(d.File(), d.Line()); name != "" {
		return d.WrapErr(fmt.Errorf("%s: the environment variable %s is not set: set it where Caddy starts, or write {$%s:default}",
			word, name, name))
	}
	return d.WrapErr(errors.New(text))
}

// unset returns the first variable of a line that has no value.
func unset(file string, line int) string {
	f, err := os.Open(file) //nolint:gosec // the Caddyfile that is being read
	if err != nil {
		return "" // it was not read from a file
	}
	defer f.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if n < line {
			continue
		}
		for _, m := range environment.FindAllStringSubmatch(lines.Text(), -1) {
			if os.Getenv(m[1]) == "" {
				return m[1]
			}
		}
		break
	}
	return ""
}
