// On Linux, URLSession is in a module of its own.
@_exported import FoundationNetworking
