package doctor

import (
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
)

type expectation int

const (
	refuses expectation = iota // nothing may arrive
	strips                     // it may arrive without what was made up
	passes                     // it must arrive
)

// kind says what a failure is about, for the fix.
type kind int

const (
	aboutGate kind = iota
	aboutToken
	aboutIdentity
	aboutConnection
	aboutURL
	aboutPath
	aboutMethod
	aboutDown
	aboutPassedOn
	aboutCertificate
)

type probe struct {
	name    string
	kind    kind
	expects expectation
	first   bool // the first one, whose answer reports whether the probes can tell anything
	token   bool
	mild    bool // a made-up value that arrives is a warning
	method  string
	target  string
	header  []string // lines
	names   []string // of the headers that are made up
}

// probes are the requests of an examination, in their order.
func (e *examination) probes() []probe {
	get := func(name string, k kind, header ...string) probe {
		return probe{name: name, kind: k, method: "GET", target: e.path, header: header}
	}
	nobody := get("no one is signed in", aboutGate)
	nobody.first = true
	valid := get("a valid token", aboutToken)
	valid.token, valid.expects = true, passes
	if e.Down {
		return e.whenDown(nobody, valid)
	}
	list := e.whileUp(nobody, valid, get)
	if e.Live {
		return live(list)
	}
	return list
}

// whileUp are the requests of an examination while Gatehouse is there.
func (e *examination) whileUp(nobody, valid probe, get func(string, kind, ...string) probe) []probe {
	list := []probe{
		nobody, valid,
		get("an invalid token", aboutGate, "Authorization: Bearer nonsense"),
		get("identity headers and no one signed in", aboutIdentity, e.madeUp(asWritten)...),
		get("malformed cookies", aboutGate, "Cookie: "+e.cookies()),
		get("the user agent of a health check", aboutGate, "User-Agent: kube-probe/1.30 GoogleHC/1.0 ELB-HealthChecker/2.0"),
	}
	list = append(list, e.spoofs()...)
	list = append(list, e.otherURLs()...)
	list = append(list, e.paths()...)
	for _, method := range []string{"HEAD", "OPTIONS", "TRACE", "POST", "DELETE"} {
		p := get("the method "+method, aboutMethod)
		if p.method = method; method == "POST" {
			p.header = []string{"Content-Length: 0"}
		}
		list = append(list, p)
	}
	return list
}

// whenDown are the requests of which none may arrive while Gatehouse is stopped.
func (e *examination) whenDown(nobody, valid probe) []probe {
	valid.expects = refuses
	spoofed := probe{name: "identity headers", method: "GET", target: e.path, header: e.madeUp(asWritten)}
	browser := probe{
		name: "a page for a browser", method: "GET", target: e.path,
		header: []string{"Sec-Fetch-Mode: navigate", "Cookie: " + e.cookies()},
	}
	list := []probe{nobody, valid, spoofed, browser}
	for i := range list {
		list[i].kind = aboutDown
		list[i].name = "Gatehouse is down: " + list[i].name
	}
	return list
}

// The spellings of a header that some software takes for the same one.
func asWritten(name string) string   { return name }
func upperCase(name string) string   { return strings.ToUpper(name) }
func lowerCase(name string) string   { return strings.ToLower(name) }
func underscores(name string) string { return strings.ReplaceAll(name, "-", "_") }
func dots(name string) string        { return strings.ReplaceAll(name, "-", ".") }
func asInCGI(name string) string     { return strings.ToUpper(underscores(name)) }

// madeUp are lines with every identity header in one spelling.
func (e *examination) madeUp(spell func(string) string) (lines []string) {
	for _, name := range e.Headers {
		lines = append(lines, spell(name)+": "+e.marker)
	}
	return lines
}

// spoofs are requests of someone who may pass and makes up who they are.
func (e *examination) spoofs() (out []probe) {
	add := func(name string, k kind, header []string) {
		out = append(out, probe{
			name: name, kind: k, expects: strips, token: true, method: "GET", target: e.path,
			header: header, names: e.Headers,
		})
	}
	add("made-up identity headers", aboutIdentity, e.madeUp(asWritten))
	add("made-up identity headers in upper case", aboutIdentity, e.madeUp(upperCase))
	add("made-up identity headers in lower case", aboutIdentity, e.madeUp(lowerCase))
	add("made-up identity headers with _", aboutIdentity, e.madeUp(underscores))
	add("made-up identity headers with .", aboutIdentity, e.madeUp(dots))
	add("made-up identity headers as in CGI", aboutIdentity, e.madeUp(asInCGI))
	add("made-up identity headers, twice", aboutIdentity, slices.Concat(e.madeUp(asWritten), e.madeUp(lowerCase)))
	add("Connection names the identity headers", aboutConnection, []string{"Connection: close, " + strings.Join(e.Headers, ", ")})

	passedOn := []string{"X-Original-URL", "X-Original-URI", "X-Rewrite-URL", "X-Original-Method"}
	p := probe{
		name: "headers by which frameworks read another path", kind: aboutPassedOn, expects: strips, token: true, mild: true,
		method: "GET", target: e.path, names: passedOn,
	}
	for _, name := range passedOn {
		p.header = append(p.header, name+": /"+e.marker)
	}
	certificates := []string{"Client-Cert", "Client-Cert-Chain", "X-Client-Cert", "X-Forwarded-Client-Cert", "X-SSL-Client-Cert"}
	c := probe{
		name: "a made-up certificate of the client", kind: aboutCertificate, expects: strips, token: true, mild: true, method: "GET",
		target: e.path, names: certificates,
	}
	for _, name := range certificates {
		c.header = append(c.header, name+": "+e.marker)
	}
	return append(out, p, c)
}

// otherURLs are requests with a header that says that something else is asked for, which needs no credential.
func (e *examination) otherURLs() (out []probe) {
	scheme := map[bool]string{false: "http://", true: "https://"}[e.tls]
	full := scheme + e.host + e.Public
	for _, h := range [...]struct{ name, value string }{
		{"X-Original-URL", full},
		{"X-Original-URI", e.Public},
		{"X-Original-Method", "OPTIONS"},
		{"X-Forwarded-Uri", e.Public},
		{"X-Forwarded-Method", "OPTIONS"},
		{"X-Forwarded-Prefix", e.Public},
		{"X-Forwarded-Host", "public.invalid"},
		{"X-Forwarded-Proto", "ftp"},
		{"X-Rewrite-URL", e.Public},
		{"X-Auth-Request-Redirect", e.Public},
		{"X_Forwarded_Uri", e.Public},
		{"X_Original_URL", full},
	} {
		out = append(out, probe{
			name: h.name + " of a public page", kind: aboutURL, method: "GET", target: e.path,
			header: []string{h.name + ": " + h.value},
		})
	}
	return out
}

// paths are spellings of the protected page in which a public path stands.
func (e *examination) paths() (out []probe) {
	for name, target := range map[string]string{
		"/../ in the path":           e.Public + "/.." + e.path,
		"/%2e%2e/ in the path":       e.Public + "/%2e%2e" + e.path,
		"%2f.. in the path":          e.Public + "%2f.." + e.path,
		"// in front of the path":    "/" + e.path,
		"; in the path":              e.path + ";" + e.Public,
		"a parameter before /../":    e.Public + ";x/.." + e.path,
		"# in the path":              e.path + "#" + e.Public,
		"%23 in the path":            e.path + "%23" + e.Public,
		`\ in the path`:              e.Public + `\..` + e.path,
		"an address as the target":   map[bool]string{false: "http://", true: "https://"}[e.tls] + e.host + e.path,
		"a public path in the query": e.path + "?" + e.Public,
	} {
		out = append(out, probe{name: name, kind: aboutPath, method: "GET", target: target})
	}
	slices.SortFunc(out, func(a, b probe) int { return strings.Compare(a.name, b.name) })
	return out
}

// cookies returns the cookies of a damaged session of this site.
func (e *examination) cookies() string {
	name := cookie.For(map[bool]string{false: "http://", true: "https://"}[e.tls] + e.host).Name("site")
	return `=; ;` + name + `=%00%ff"; ` + name + `=; "` + name + `"=x; ` + name
}
