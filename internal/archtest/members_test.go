package archtest

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// checksMembers are the files that check members of the settings, with the functions of check_units.go that are called
// check… What only they read has no effect.
var checksMembers = []string{"identity/settings/check.go", "identity/settings/standard.go", "identity/settings/effects.go"}

const (
	refused = "it is answered with 409 and the reason in docs/configuration.md"
	asJSON  = "caddymodule/policy/stored reads it as JSON"
	named   = "it names the entry for who reads it again"
)

// unread are members that nothing reads, and why.
var unread = allowance{
	"IdentityAttribute.ID":                 named,
	"EIDASAttributes.BSNVerificationPoint": refused, "EIDASAttributes.PseudoIDVerificationPoint": refused,
	"EIDASAttributes.BSNDecryptionKeyID":      refused,
	"EIDASAttributes.PseudoIDDecryptionKeyID": refused, "EIDASAttributes.PseudoIDClosingKeyID": refused,
	"IDINAttributes.DirectoryURL": refused, "IDINAttributes.TransactionURL": refused, "IDINAttributes.StatusURL": refused,
	"IDINAttributes.AcquirerPublicCertificateID": refused, "IDINAttributes.MerchantID": refused, "IDINAttributes.SubID": refused,
	"IDINAttributes.MerchantReturnHostName": refused, "IDINAttributes.MerchantCertificatePairID": refused,
	"IDINAttributes.SAMLCertificatePairID": refused,
	"LoginMethod.IDIN":                     refused,
	"PolicyNeed.Scopes":                    asJSON, "PolicyNeed.MaxAge": asJSON, "PolicyClaim.Name": asJSON,
	"PolicyClaim.Values": asJSON, "PolicyNeed.Persons": asJSON, "PolicyNeed.Clients": asJSON, "PolicyNeed.Providers": asJSON,
	"PolicyNeed.DeviceBound": asJSON,
	"PolicyRule.When":        asJSON,
	"PolicyRule.Message":     asJSON,
}

// TestMembersAreRead: each member of the configuration units is read somewhere, checks of its value left out. It prints
// them all, as docs/configuration.md has the effect or the reason of each.
func TestMembersAreRead(t *testing.T) {
	t.Parallel()
	tree := typedFiles(t)
	read := map[types.Object]bool{}
	for _, p := range tree.order {
		for _, f := range p.files {
			if harness(f) || slices.Contains(checksMembers, f.path) {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if fn, ok := n.(*ast.FuncDecl); ok && f.path == "identity/settings/check_units.go" && strings.HasPrefix(fn.Name.Name, "check") {
					return false
				}
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if v, ok := p.info.Uses[sel.Sel].(*types.Var); ok && v.IsField() {
						read[v] = true
					}
				}
				return true
			})
		}
	}
	config := tree.packages["identity/settings"]
	allowed := unread.use(t)
	var table strings.Builder
	seen := map[types.Type]bool{}
	var visit func(of types.Type)
	visit = func(of types.Type) {
		switch of := of.(type) {
		case *types.Pointer:
			visit(of.Elem())
		case *types.Slice:
			visit(of.Elem())
		case *types.Map:
			visit(of.Elem())
		case *types.Named:
			s, ok := of.Underlying().(*types.Struct)
			if !ok || seen[of] || of.Obj().Pkg() != config.types {
				if !ok {
					visit(of.Underlying())
				}
				return
			}
			seen[of] = true
			for i := range s.NumFields() {
				field := s.Field(i)
				if !field.Exported() || !strings.Contains(s.Tag(i), "json:") {
					continue
				}
				name, word := of.Obj().Name()+"."+field.Name(), "read"
				if !read[field] {
					if word = "not read"; !allowed.allows(name) {
						t.Errorf("%s: nothing reads %s", position(field), name)
					}
				}
				table.WriteString(word + "  " + name + "\n")
				visit(field.Type())
			}
		}
	}
	visit(config.types.Scope().Lookup("Units").Type())
	t.Logf("members:\n%s", table.String())
	if n := strings.Count(table.String(), "\n"); n < 200 {
		t.Errorf("%d members are found, want all of them", n)
	}
}
