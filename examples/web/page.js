'use strict';

const byId = (id) => document.getElementById(id);
const app = new URLSearchParams(location.search).get('app');

function show(text, isSubscribed) {
  byId('state').textContent = text;
  byId('subscribe').disabled = isSubscribed;
  byId('unsubscribe').disabled = !isSubscribed;
}

async function start() {
  if (!Notify.isSupported()) {
    byId('state').textContent = 'This browser has no web push, or the page is not on localhost.';
    return;
  }
  const { subscribed, deviceId } = await Notify.init({ app });
  show(subscribed ? `Subscribed as ${deviceId}.` : 'Not subscribed.', subscribed);
}

byId('subscribe').onclick = async () => {
  try {
    const { deviceId } = await Notify.subscribe();
    show(`Subscribed as ${deviceId}.`, true);
  } catch (error) {
    show(error.message, false);
  }
};

byId('unsubscribe').onclick = async () => {
  try {
    await Notify.unsubscribe();
    show('Not subscribed.', false);
  } catch (error) {
    show(error.message, true);
  }
};

if (app) start();
