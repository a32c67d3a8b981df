importScripts('http://127.0.0.1:8080/sdk/notify-sw.js');
