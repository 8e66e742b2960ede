package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gearshift/internal/etcd"
	"gearshift/serving/config/setting"
)

// StoreUsage is the usage of --store.
const StoreUsage = "`file`, or etcd://HOST:PORT[,HOST:PORT...]/PREFIX (etcds:// for TLS), that holds policies and training progress; default: " + storeVariable + ", else ./" + storeFile + " if it is there, else $XDG_DATA_HOME/gearshift/" + storeFile

const (
	storeVariable = "GEARSHIFT_STORE"
	storeFile     = "gearshift.db"
)

// DefaultStore returns the path of the store without --store: the file that the environment
// names, else the one in this folder if there is one, else the one in the user's data folder.
// For a user without a data folder it is the one in this folder in any case.
func DefaultStore() string {
	if path := setting.Env(storeVariable); path != "" {
		return path
	}
	data := dataFolder()
	if _, err := os.Stat(storeFile); err == nil || data == "" {
		return storeFile
	}
	return filepath.Join(data, storeFile)
}

// dataFolder returns Gearshift's folder among the user's data, by the XDG base directories,
// or "" if the user has none.
func dataFolder() string {
	// The specification ignores a relative path.
	if data := setting.Env("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "gearshift")
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".local", "share", "gearshift")
}

// CheckStore returns an error if the command's --store, or the environment's, is neither a file nor an address in etcd;
// and the same of --state.
func CheckStore(c *cobra.Command) error {
	for _, name := range []string{"store", "state"} {
		f := c.Flag(name)
		if f == nil {
			continue
		}
		if err := etcd.Check(f.Value.String()); err != nil {
			from := "--" + name
			if name == "store" && !f.Changed {
				from = storeVariable
			}
			return fmt.Errorf("%s: %w", from, err)
		}
	}
	return nil
}

// MakeDataFolder makes the folder of the default store, if the command uses a store and
// neither --store nor the environment names one. A failure is not reported here: opening the
// store reports it.
func MakeDataFolder(c *cobra.Command) {
	f := c.Flag("store")
	if f == nil || f.Changed || setting.Env(storeVariable) != "" || filepath.Dir(f.Value.String()) != dataFolder() {
		return
	}
	_ = os.MkdirAll(filepath.Dir(f.Value.String()), 0o700)
}
