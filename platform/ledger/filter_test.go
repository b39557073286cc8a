package ledger

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tb "github.com/tigerbeetle/tigerbeetle-go/pkg/types"

	"github.com/liquida/liquida/platform/pix"
)

// TigerBeetle takes a zero in a filter for "no filter". So what filters must never be zero: not for the lowest
// ISPB, branch, number, minute and suffix that are legal.
func TestWhatFiltersIsNeverZero(t *testing.T) {
	const ispb pix.ISPB = "00000000"

	account := pix.Account{ISPB: ispb, Branch: "0000", Number: "1"}
	if ispb.Pack() != 0 {
		t.Fatalf("%s packs to %d: this test needs one that packs to 0", ispb, ispb.Pack())
	}

	for _, id := range []AccountID{
		IssuanceAccount, RefusalsAccount, RegisterAccount, AllowanceSourceAccount, ReserveAccount(ispb),
		TransitAccount(ispb), BooksAccount(ispb),
		AllowanceAccount(ispb, Day), AllowanceAccount(ispb, Night), CustomerAccount(account),
	} {
		if id == (tb.Uint128{}) {
			t.Errorf("an account's id is zero")
		}
	}

	id, err := pix.ParseReturnID("D00000000" + pix.Epoch.Format("200601021504") + "00000000000")
	if err != nil {
		t.Fatal(err)
	}

	if filter := ReturnLegs(id); filter.UserData128 == (tb.Uint128{}) || filter.UserData64 == 0 {
		t.Errorf("the query for the legs of %s filters on %+v", id, filter)
	}
}

// Nobody but ReturnLegs filters on user data, and whoever asks for an account names it. A filter that is
// built elsewhere must be added here with a reason why a legal id never makes it zero.
func TestNoQueryFiltersOnWhatMayBeZero(t *testing.T) {
	const root = "../.."
	files, filters := 0, 0

	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(name, "."):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}

		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(parsed, func(node ast.Node) bool {
			if assigns, ok := node.(*ast.AssignStmt); ok {
				for _, to := range assigns.Lhs {
					if of, ok := to.(*ast.SelectorExpr); ok && strings.HasPrefix(of.Sel.Name, "UserData") {
						if name, ok := of.X.(*ast.Ident); ok && strings.Contains(strings.ToLower(name.Name), "filter") {
							t.Errorf("%s sets %s.%s, which a legal id may make zero", path, name.Name, of.Sel.Name)
						}
					}
				}
			}

			literal, ok := node.(*ast.CompositeLit)
			if !ok {
				return true
			}

			kind, ok := literal.Type.(*ast.SelectorExpr)
			if !ok || kind.Sel.Name != "QueryFilter" && kind.Sel.Name != "AccountFilter" {
				return true
			}
			filters++

			var fields []string
			for _, element := range literal.Elts {
				fields = append(fields, element.(*ast.KeyValueExpr).Key.(*ast.Ident).Name)
			}

			if kind.Sel.Name == "AccountFilter" && !slices.Contains(fields, "AccountID") {
				t.Errorf("%s asks for transfers of no account", path)
			}

			if slices.ContainsFunc(fields, func(f string) bool {
				return strings.HasPrefix(f, "UserData")
			}) && !strings.HasSuffix(path, "platform/ledger/return.go") {
				t.Errorf("%s filters on %v: a legal id may make user data zero", path, fields)
			}

			return true
		})

		return nil
	})
	if err != nil || files < 100 || filters < 10 {
		t.Errorf("%d filters in %d files: this looked in the wrong place (%v)", filters, files, err)
	}
}
