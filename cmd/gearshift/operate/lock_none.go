//go:build windows || plan9 || solaris || aix

package operate

import "os"

// lock does nothing where Go knows no lock of folders.
func lock(*os.File) {}
